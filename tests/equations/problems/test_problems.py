"""Problems: references solve their equations and satisfy conditions and symmetries; wrong statements are refused."""

import math

import numpy as np
import pytest
import torch

import evolvent as ev
from evolvent.equations.problems import Condition, Problem, create_problem, list_problems
from evolvent.errors import ConfigError, ShapeError, UnknownNameError

QUICK = {"allen-cahn": {"diffusion": 0.01}, "burgers": {"viscosity": 0.05}, "kdv": {"dispersion": 0.01}, "heat": {},
         "kuramoto-sivashinsky": {"until": 0.2}, "schroedinger": {"until": 0.3, "half_width": 15.0}}  # fmt: skip


@pytest.fixture(scope="module")
def problems():
    return {name: create_problem(name, **options) for name, options in QUICK.items()}


@pytest.mark.parametrize("name", list_problems())
def test_the_reference_solves_the_equation(problems, name):
    """By finite differences of sixth order, in the residual that networks are trained with."""
    problem = problems[name]
    widths = {c: 2e-3 * (high - low) for c, (low, high) in problem.domain.items()}
    shares = torch.rand(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = problem.placed(0.1 + 0.8 * shares)

    def difference(wanted):
        step = torch.tensor([float(c == wanted[0]) for c in problem.coordinates]) * widths[wanted[0]]
        powers, target = np.vander(np.arange(-4.0, 5.0), increasing=True).T, np.zeros(9)
        target[len(wanted)] = math.factorial(len(wanted))
        weights = np.linalg.solve(powers, target) / widths[wanted[0]] ** len(wanted)
        return sum(w * problem.solution(points + k * step) for w, k in zip(weights, range(-4, 5), strict=True))

    found = {wanted: difference(wanted) for wanted in problem.derivatives_needed}
    residual = problem.residual(ev.equations.Derivatives(problem.solution(points), {}, found))
    assert residual.abs().max() < 2e-3
    assert max(u.abs().max() for u in found.values()) > 0.5  # the terms that cancel are not small


@pytest.mark.parametrize("name", list_problems())
def test_the_reference_starts_as_it_should_and_has_the_symmetries(problems, name):
    problem = problems[name]
    points = problem.sobol(64, 3)
    start = points.clone()
    start[:, problem.coordinates.index("t")] = problem.domain["t"][0]
    torch.testing.assert_close(problem.solution(start), problem.initial_values(points), rtol=0, atol=1e-4)
    symmetry = problem.symmetry["x"]
    low, high = problem.domain["x"]
    flipped = points * torch.tensor([-1.0, 1.0]) + torch.tensor([low + high, 0.0])
    moved = points + torch.tensor([high - low, 0.0])
    if "even" in symmetry or "odd" in symmetry:
        sign = 1 if "even" in symmetry else -1
        torch.testing.assert_close(problem.solution(flipped), sign * problem.solution(points), rtol=0, atol=1e-8)
    torch.testing.assert_close(problem.solution(moved), problem.solution(points), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", list_problems())
def test_networks_are_made_for_the_problem(problems, name):
    problem = problems[name]
    net = ev.create_model("perceptron", **problem.network_options()).double()
    u = problem.derivatives(net, problem.sobol(8, 0))
    assert problem.residual(u).shape == u.value.shape == (8, len(problem.unknowns))


def test_a_new_problem_is_stated_in_ten_lines():
    wave = Problem(
        name="string",
        domain={"x": (0, math.pi), "y": (0, 1), "t": (0, 4)},
        equation=lambda u, c: [u["tt"] - c**2 * (u["xx"] + u["yy"]), u["xy"] - u.points["x"] * u.value],
        coefficients={"c": 2.0},
        initial=lambda x, y: 5 * torch.sin(x) * y,
        conditions=[Condition("held", {"x": 0.0}, lambda u: u.value)],
    )
    assert wave.derivatives_needed == ("tt", "xx", "xy", "yy")
    points = wave.sobol(6, 0)

    def f(p):
        x, y, t = p.split(1, dim=1)
        return x**2 * y**3 * t**2

    u = wave.derivatives(f, points)
    x, y, t = points.split(1, dim=1)
    residual = torch.cat(
        [2 * x**2 * y**3 - 4 * (2 * y**3 * t**2 + 6 * x**2 * y * t**2), 6 * x * y**2 * t**2 - x**3 * y**3 * t**2], 1
    )
    torch.testing.assert_close(wave.residual(u), residual * 4 / wave.scale)
    assert wave.scale == pytest.approx(5, rel=0.02)
    torch.testing.assert_close(wave.residual(u, c=0.0)[:, 0], (2 * x**2 * y**3)[:, 0] * 4 / wave.scale)
    torch.testing.assert_close(u["xx"], 2 * y**3 * t**2)
    assert wave.space == ["x", "y"]
    assert wave.grid(3, 2, 5).shape == (30, 3)
    assert wave.derivatives(f, points, []).value.shape == (6, 1)


def test_systems_have_components():
    pair = Problem(
        name="rotation",
        domain={"t": (0, 1)},
        equation=lambda u: [u.component(0)["t"] - u.component(1).value, u.component(1)["t"] + u.component(0).value],
        unknowns=("a", "b"),
        size=2.0,
    )
    circle = lambda p: torch.cat([p.sin(), p.cos()], 1)  # noqa: E731
    assert pair.derivatives_needed == ("t",)
    assert pair.residual(pair.derivatives(circle, pair.grid(9))).abs().max() < 1e-14
    assert pair.network_options()["num_classes"] == 2


def test_a_periodic_grid_leaves_its_end_out():
    grid = create_problem("heat").grid(4, 2)
    assert sorted(set(grid[:, 0].tolist())) == [-1.0, -0.5, 0.0, 0.5]
    assert sorted(set(grid[:, 1].tolist())) == [0.0, 1.0]


def test_wrong_statements_are_refused():
    def stated(**changes):
        given = {"name": "p", "domain": {"x": (0, 1), "t": (0, 1)}, "equation": lambda u: u["t"]}
        return Problem(**{**given, **changes})

    with pytest.raises(ConfigError, match="one letter"):
        stated(domain={"space": (0, 1)})
    with pytest.raises(ConfigError, match="larger upper end, got 'x' from 1 to 0"):
        stated(domain={"x": (1, 0)})
    with pytest.raises(UnknownNameError, match="coordinate 'y'"):
        stated(symmetry={"y": "even"})
    with pytest.raises(ConfigError, match="no coordinate 't'"):
        stated(domain={"x": (0, 1)}, initial=torch.sin)
    with pytest.raises(ConfigError, match="at x = 2, outside"):
        stated(conditions=[Condition("end", {"x": 2.0}, lambda u: u.value)])
    with pytest.raises(UnknownNameError, match="coordinate 'z'"):
        _ = stated(equation=lambda u: u["zz"]).derivatives_needed
    with pytest.raises(ConfigError, match="coefficients \\['c'\\] by name"):
        _ = stated(coefficients={"c": 1.0}).derivatives_needed
    with pytest.raises(ConfigError, match="no reference"):
        _ = stated().solution
    with pytest.raises(ShapeError, match=r"points \(N, 2\) of x, t"):
        stated().derivatives(torch.sin, torch.zeros(4, 3))
    with pytest.raises(UnknownNameError, match="coordinate 'y'"):
        stated().derivatives(torch.sin, torch.zeros(4, 2), ["y"])
    with pytest.raises(UnknownNameError, match="coefficient 'speed'"):
        stated().residual(stated().derivatives(lambda p: p[:, :1], torch.rand(3, 2)), speed=1.0)
    with pytest.raises(UnknownNameError, match="problem 'alen-cahn'"):
        create_problem("alen-cahn")
    with pytest.raises(UnknownNameError, match="option of heat 'viscosity'"):
        create_problem("heat", viscosity=1.0)
    assert stated().scale == 1.0


def test_derivatives_by_name():
    u = ev.equations.Derivatives(torch.ones(1), {"x": [torch.zeros(1)]})
    with pytest.raises(UnknownNameError, match="derivative 'xy'"):
        u["xy"]
