"""Coefficients that depend on coordinates: what they are made of, and that they are found within their errors."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import evolvent as ev
from evolvent.analysis.solutions import estimate_coefficients
from evolvent.equations.problems import Problem, create_problem, with_field
from evolvent.errors import ConfigError, UnknownNameError

SHAPE = 0.5  # of the conductivity 0.1 (1 + SHAPE cos pi x)


def exact(points):
    x, t = points.split(1, dim=1)
    return torch.exp(-t) * torch.cos(math.pi * x)


def heated(u, conductivity):
    """Heated such that the function above is the solution."""
    wave = torch.exp(-u.points["t"]) * torch.cos(math.pi * u.points["x"])
    true = 0.1 * (1 + SHAPE * torch.cos(math.pi * u.points["x"]))
    return u["t"] - conductivity * u["xx"] - wave * (true * math.pi**2 - 1)


def rod(symmetry="periodic-even", functions=3) -> Problem:
    stated = Problem(
        name="rod",
        domain={"x": (-1.0, 1.0), "t": (0.0, 1.0)},
        equation=heated,
        coefficients={"conductivity": 0.2},
        initial=lambda x: torch.cos(math.pi * x),
        symmetry={"x": symmetry},
    )
    return with_field(stated, "conductivity", along="x", functions=functions)


KINDS = ("none", "even", "odd", "periodic", "periodic-even", "periodic-odd")


@given(kind=st.sampled_from(KINDS), functions=st.integers(2, 6))
def test_functions_are_independent_begin_with_one_and_have_the_symmetry(kind, functions):
    field = with_field(
        Problem(
            name="any",
            domain={"x": (1.0, 4.0)},
            equation=lambda u, c: c * u["xx"],
            coefficients={"c": 2.0},
            symmetry={"x": kind},
        ),
        "c",
        along="x",
        functions=functions,
    ).fields["c"]
    x = torch.linspace(1, 4, 101, dtype=torch.float64)[:, None]
    found = field.basis({"x": x})
    torch.testing.assert_close(found[:, 0], torch.ones(101, dtype=torch.float64))
    assert torch.linalg.matrix_rank(found) == functions
    if kind != "none" and kind != "periodic":
        torch.testing.assert_close(found, field.basis({"x": 5 - x}), rtol=0, atol=1e-12)
    if "periodic" in kind:
        torch.testing.assert_close(found, field.basis({"x": x + 3}), rtol=0, atol=1e-12)


def test_slopes_are_derivatives_and_products_count_over_coordinates():
    problem = with_field(create_problem("heat"), "diffusion", along=["x", "t"], functions=3)
    field = problem.fields["diffusion"]
    assert len(field.shape_names) == 8
    points = dict(zip("xt", problem.sobol(7, seed=0).split(1, dim=1), strict=True))
    numbers = {name: 0.1 * (k + 1) for k, name in enumerate(["diffusion", *field.shape_names])}
    same = {name: torch.full((7, 1), number).double().requires_grad_() for name, number in numbers.items()}
    slopes = torch.autograd.grad(field(points, same).sum(), list(same.values()))
    torch.testing.assert_close(field.slopes(points, numbers), torch.cat(slopes, dim=1))


def test_a_constant_field_is_the_constant():
    plain = create_problem("heat")
    field = with_field(plain, "diffusion", along="x", functions=4)
    points = plain.sobol(20, seed=3)
    u = plain.derivatives(plain.solution, points)
    torch.testing.assert_close(field.residual(u), plain.residual(u))


def test_covariance_and_standard_errors_agree():
    true = {"conductivity": 0.1, "conductivity_1": SHAPE, "conductivity_2": 0.0}
    problem = replace(rod(), coefficients=true)
    points = problem.sobol(200, seed=5)
    noisy = exact(points) + 0.01 * torch.randn(200, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = estimate_coefficients(problem, exact, list(true), points, noisy)
    assert found.not_identified == []
    assert found.covariance is not None
    spread = np.sqrt(np.diag(found.covariance))
    np.testing.assert_allclose(spread, [one.error for one in found.found], rtol=1e-9)
    assert spread[0] < 0.01
    assert spread[1] < 0.1


def test_a_field_is_found_within_its_standard_errors(tmp_path, quick):
    problem = rod()
    points = problem.sobol(150, seed=7)
    values = exact(points).numpy() + 0.005 * np.random.default_rng(0).standard_normal((150, 1))
    run = tmp_path / "run"
    found = ev.solve(
        problem,
        unknown={"conductivity": 0.2},
        samples=(points.numpy(), values),
        second=False,
        settings=quick(24),
        out=run,
    )
    x = np.linspace(-1, 1, 21)
    at = np.stack([x, 0 * x], axis=1)
    field, errors = found.field("conductivity", at)
    off = np.abs(field - 0.1 * (1 + SHAPE * np.cos(math.pi * x)))
    assert (off < 4 * errors).all()
    assert errors.max() < 0.02
    again = ev.load(run, problem=problem)
    np.testing.assert_array_equal(again.field("conductivity", at), (field, errors))
    again.estimates = None
    assert again.field("conductivity", at)[1] is None
    with pytest.raises(UnknownNameError, match="with_field"):
        found.field("drag", at)


def test_what_cannot_be_a_field():
    heat = create_problem("heat")
    with pytest.raises(UnknownNameError, match="no such constant"):
        with_field(heat, "drag", along="x")
    with pytest.raises(UnknownNameError, match="There are x, t"):
        with_field(heat, "diffusion", along="z")
    with pytest.raises(ConfigError, match="functions"):
        with_field(heat, "diffusion", along="x", functions=1)
    with pytest.raises(ConfigError, match="is 0"):
        with_field(create_problem("heat", diffusion=0.0), "diffusion", along="x")
