"""Coefficients found from samples: within their standard errors, and what samples do not tell."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import evolvent as ev
from evolvent.analysis.solutions import (
    Estimate,
    Estimates,
    LinearisedProblem,
    TangentProblem,
    check_trust,
    estimate_coefficients,
)
from evolvent.equations.problems import Condition, Problem, create_problem
from evolvent.solving.verdicts import coefficients_table, read_estimates, write_estimates


def samples_of(problem, count=80, noise=0.01, seed=0):
    points = problem.sobol(count, seed=seed + 77)
    draw = np.random.default_rng(seed)
    return points.numpy(), problem.solution(points).numpy() + noise * draw.standard_normal((count, 1))


def test_a_coefficient_is_found_within_its_standard_error(tmp_path, quick):
    samples = samples_of(create_problem("heat"))
    found = ev.solve(
        "heat", unknown={"diffusion": 0.2}, samples=samples, second=False, settings=quick(24), out=tmp_path / "run"
    )
    estimate = found.estimates["diffusion"]
    assert 0 < estimate.error < 0.01
    assert abs(estimate.value - 0.05) < 3 * estimate.error
    assert found.estimates.noise == pytest.approx(0.01, rel=0.4)
    assert found.estimates.not_identified == []
    assert found.coefficients["diffusion"] == estimate.value == found.figures["diffusion"]
    again = ev.load(tmp_path / "run")
    assert again.estimates == found.estimates
    assert again.coefficients == found.coefficients
    assert "Coefficients that were found" in found.report(tmp_path / "r.html").read_text()
    assert str(estimate).startswith("diffusion = 0.0")


def exact(points):
    x, t = points.split(1, dim=1)
    return torch.exp(-0.1 * math.pi**2 * t) * torch.sin(math.pi * x)


def warm(equation, **coefficients) -> Problem:
    return Problem(
        name="warm",
        domain={"x": (-1.0, 1.0), "t": (0.0, 1.0)},
        equation=equation,
        coefficients=coefficients,
        initial=lambda x: torch.sin(math.pi * x),
        symmetry={"x": "periodic-odd"},
        reference=lambda: exact,
    )


def test_standard_errors_are_those_of_repeated_measurements():
    """The spread of the best diffusion over many sets of noisy samples, fitted with the exact solution."""
    problem = warm(lambda u, diffusion: u["t"] - diffusion * u["xx"], diffusion=0.1)
    points, noise = problem.sobol(60, seed=5), 0.02
    slope = -(math.pi**2) * points[:, 1:] * exact(points)  # of the solution with the diffusion
    off = noise * torch.randn(60, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    off -= slope * ((slope * off).sum() / slope.square().sum())  # so that the diffusion is the best one
    found = estimate_coefficients(problem, exact, ["diffusion"], points, exact(points) + off)
    expected = found.noise / slope.norm().item()
    assert found["diffusion"].error == pytest.approx(expected, rel=1e-3)


def coefficients_in_noise(count, draw, noise=0.05):
    """Of samples that a function follows to nine tenths of their noise, at a diffusion that misses the best one."""
    problem = warm(lambda u, diffusion: u["t"] - diffusion * u["xx"], diffusion=0.1 + 0.01 * draw.standard_normal())
    points = problem.sobol(count, seed=5)
    off = torch.from_numpy(noise * draw.standard_normal((count, 1)))

    def follows(x):
        distance = [(x[:, :1] - a).square() + (x[:, 1:] - b).square() for a, b in points.tolist()]
        bumps = [0.9 * height * torch.exp(-400 * d) for height, d in zip(off, distance, strict=True)]
        return exact(x) + torch.stack(bumps).sum(0)

    return estimate_coefficients(problem, follows, ["diffusion"], points, exact(points) + off)


def test_noise_that_the_network_follows_is_in_the_standard_errors():
    draw = np.random.default_rng(3)
    found = [coefficients_in_noise(10, draw) for _ in range(8)]
    assert np.mean([one.noise**2 for one in found]) == pytest.approx(0.05**2, rel=0.4)
    off = [abs(one["diffusion"].value - 0.1) / one["diffusion"].error for one in found]
    assert sum(one < 2 for one in off) >= 7
    assert all(one.freedom == 9 and 0 < one.solution_error < 0.2 for one in found)


def test_as_many_coefficients_as_samples_have_no_standard_errors(tmp_path, quick):
    found = ev.solve(
        "heat",
        unknown={"diffusion": 0.2},
        samples=([[0.3, 0.5]], [0.2]),
        second=False,
        settings=quick(2),
        out=tmp_path / "run",
    )
    assert found.estimates["diffusion"].error is None
    assert found.estimates.noise is None
    assert ev.load(tmp_path / "run").estimates == found.estimates
    assert not found.trust.trusted
    assert "with 1 unknown and only 1 measured, the noise of the samples cannot be estimated" in found.trust.verdict


def test_a_pair_of_which_only_the_product_matters_is_named(tmp_path):
    pair = warm(lambda u, depth, speed: u["t"] - depth * speed * u["xx"], depth=0.5, speed=0.2)
    points, values = samples_of(pair, 40)
    found = estimate_coefficients(pair, exact, ["depth", "speed"], torch.from_numpy(points), torch.from_numpy(values))
    assert found.condition > 1e8
    [said] = found.not_identified
    assert "depth" in said
    assert "speed" in said
    assert "up" in said
    assert "down" in said
    assert "relative changes 1 : 1" in said
    assert all(math.isinf(one.error) for one in found.found)
    write_estimates(tmp_path, found)
    assert read_estimates(tmp_path) == found


def test_a_coefficient_without_effect_is_named():
    idle = warm(lambda u, diffusion, drag: u["t"] - diffusion * u["xx"] + drag * 0 * u.value, diffusion=0.1, drag=1.0)
    points, values = samples_of(idle, 40)
    found = estimate_coefficients(
        idle, exact, ["diffusion", "drag"], torch.from_numpy(points), torch.from_numpy(values)
    )
    assert found.not_identified == ["drag is not determined at all"]
    assert 0 < found["diffusion"].error < 0.05


def test_problems_that_cannot_be_linearised_here_have_no_standard_errors(tmp_path):
    steady = Problem(
        name="steady",
        domain={"x": (0.0, 1.0)},
        equation=lambda u, stiffness: stiffness * u["xx"] + 1,
        coefficients={"stiffness": 1.0},
    )
    points = steady.sobol(9, seed=0)
    found = estimate_coefficients(steady, lambda p: 0 * p, ["stiffness"], points, torch.zeros_like(points))
    assert found["stiffness"].error is None
    assert "no standard errors" in found.remark
    write_estimates(tmp_path, found)
    assert read_estimates(tmp_path) == found


def plate(**more) -> Problem:
    """Steady heat on a square, whose solution is that of conductivity 0.5 at the end."""
    return Problem(
        name="plate",
        domain={"x": (0.0, 1.0), "y": (0.0, 1.0)},
        equation=lambda u, k: (
            k * u.laplacian + math.pi**2 * torch.sin(math.pi * u.points["x"]) * torch.sin(math.pi * u.points["y"])
        ),
        coefficients={"k": 0.5},
        **more,
    )


def bump(points):
    return torch.sin(math.pi * points).prod(1, keepdim=True)


def test_a_coefficient_of_a_steady_problem_is_found_within_its_standard_error(quick):
    points = plate().sobol(100, seed=4)
    noise = torch.randn(100, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    samples = (points, bump(points) + 0.02 * noise)
    found = ev.solve(plate(boundary=0.0), unknown={"k": 0.7}, samples=samples, second=False, settings=quick(16))
    expected = found.estimates.noise * 0.5 / bump(points).norm().item()  # u is in proportion to 1 / k
    assert found.estimates.noise == pytest.approx(0.02, rel=0.3)
    assert found.estimates["k"].error == pytest.approx(expected, rel=0.3)
    assert abs(found.estimates["k"].value - 0.5) < 3 * found.estimates["k"].error
    assert 0 < found.estimates.solution_error < 0.1
    assert "by the errors of its coefficients" in found.trust.verdict


def test_changes_along_a_network_are_those_on_a_grid(heat):
    problem, network, solution = heat.parts
    places = problem.sobol(60, seed=3)
    tangent = TangentProblem(problem, network, solution)
    assert tangent.why_not() == ""
    changes = tangent.changes(["diffusion"])
    sensitivity = tangent.followed(changes.sensitivities, places)[:, 0, 0]
    lin = LinearisedProblem(problem, heat, places=128, times=41, coefficients=("diffusion",))
    grid = torch.from_numpy(lin.sensitivities()[..., 0, 0].copy()).flatten()
    near = torch.cdist(places, lin.points.flatten(0, 1)).argmin(1)
    assert (sensitivity - grid[near]).norm() < 0.1 * sensitivity.norm()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "it has no conditions"),
        ({"conditions": [Condition("cold", {"x": 0.0}, lambda u: u.value)]}, "nothing is given at x = 1"),
        ({"boundary": 0.0, "unknowns": ("u", "v")}, "it has 1 equations for 2 unknowns"),
    ],
)
def test_problems_that_determine_no_changes_say_why(more, reason):
    stated = plate(**more)
    if "unknowns" in more:
        stated = replace(stated, equation=lambda u, k: k * u.component(0)["xx"] + u.component(1)["yy"])
    tangent = TangentProblem(stated, torch.nn.Linear(2, 1), lambda f, x: f(x))
    assert reason in tangent.why_not()


def test_a_verdict_without_errors_of_the_coefficients_says_so():
    known = warm(lambda u, diffusion: u["t"] - diffusion * u["xx"], diffusion=0.1)
    unknown = Estimates([Estimate("diffusion", 0.1, None)], 0.01, remark="no standard errors", freedom=9)
    found = check_trust(known, exact, estimates=unknown)
    assert found.verdict.startswith("Trust it no further than its coefficients, whose errors are not known")


def test_few_samples_have_wide_intervals():
    few, many = (Estimates([Estimate("k", 1.0, 0.1)], 0.1, freedom=freedom) for freedom in (2, 1000))
    [[*_, wide]], [[*_, narrow]] = (coefficients_table(one).rows for one in (few, many))
    assert wide == pytest.approx(0.43, abs=0.01)
    assert narrow == pytest.approx(0.196, abs=0.001)
