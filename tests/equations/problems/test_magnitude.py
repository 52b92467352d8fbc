"""Equations in any unit leave residuals of order one."""

import math

import pytest
import torch

from evolvent.equations.problems import MANY, Problem, create_problem, list_problems
from evolvent.equations.problems.magnitude import USUAL, balance, magnitudes


def poisson(factor=1.0, length=1.0, **given):
    def equation(u):
        source = torch.sin(math.pi * u.points["x"] / length) * torch.sin(math.pi * u.points["y"] / length)
        return factor * (-u.laplacian - 2 * math.pi**2 * source)

    ends = {"x": (0, length), "y": (0, length)}
    return Problem(name="poisson", domain=ends, equation=equation, boundary=0.0, **given)


@pytest.mark.parametrize("name", [name for name in list_problems() if len(create_problem(name).domain) <= MANY])
def test_known_problems_stay_as_they_are(name):
    problem = create_problem(name)
    if problem.eigenvalue is None:
        found = magnitudes(problem, problem.coefficients)
        assert ((found > USUAL[0]) & (found < USUAL[1])).all()
    assert balance(problem, problem.coefficients) is None


@pytest.mark.parametrize("factor", [1e-12, 1e-5, 1e5, 1e12])
def test_a_factor_of_the_equation_does_not_count(factor):
    points = torch.rand(50, 2, dtype=torch.float64)
    of = lambda problem: problem.residual(problem.derivatives(lambda x: torch.sin(3 * x).sum(1, True), points))  # noqa: E731
    torch.testing.assert_close(of(poisson(factor)), of(poisson(1e20)), rtol=1e-9, atol=0)


def test_units_of_length_and_size_do_not_count():
    usual, [factor] = magnitudes(poisson(), {}).item(), balance(poisson(1e-5, 1e3, size=1e6), {})
    assert factor == pytest.approx(1e11 / usual)


def test_equations_of_a_system_are_each_brought_to_order_one():
    system = Problem(
        name="system", domain={"x": (0, 1)}, unknowns=("a", "b"), boundary=0.0,
        equation=lambda u: [u.component(0)["xx"] - 1, 1e9 * (u.component(1)["xx"] - 1)],
    )  # fmt: skip
    factors = balance(system, {})
    assert factors[0] == 1
    assert factors[1] == pytest.approx(1e-9 / 4, rel=1)
    points = torch.rand(20, 1, dtype=torch.float32)
    found = system.residual(system.derivatives(lambda x: torch.cat([x**2, x**2], 1), points))
    assert found.dtype == torch.float32
    expected = torch.tensor([1.0, 1e9 * factors[1]], dtype=torch.float32).expand(20, 2)
    torch.testing.assert_close(found, expected)


NONLINEAR = {
    "sinh": lambda u: u["xx"] - 5 * torch.sinh(5 * u.value),
    "exponential": lambda u: u["xx"] + torch.exp(u.value / 0.026),
    "inverse": lambda u: u["xx"] + 1 / u.value**13,
    "at an end": lambda u: u["xx"] + u["x"] / u.points["x"] - 4 * u.value / u.points["x"] ** 2,
}


@pytest.mark.parametrize("name", NONLINEAR)
def test_what_is_large_by_nonlinear_terms_or_near_one_point_stays(name):
    problem = Problem(name=name, domain={"x": (0, 1)}, equation=NONLINEAR[name], boundary=lambda x: x)
    assert balance(problem, {}) is None


def rod(diffusivity=1.0):
    return Problem(
        name="rod", domain={"x": (0, 1), "t": (0, 1)}, coefficients={"diffusivity": diffusivity, "capacity": 1e-6},
        equation=lambda u, diffusivity, capacity: capacity * u["t"] - diffusivity * u["xx"], initial=1.0, boundary=0.0,
    )  # fmt: skip


def test_the_coefficients_that_are_meant_count():
    problem, points = rod(), torch.rand(9, 2)
    u = problem.derivatives(lambda x: torch.sin(x).sum(1, True), points)
    small = problem.residual(u, diffusivity=1e-6)
    torch.testing.assert_close(small, rod(1e-6).residual(u))
    assert small.abs().mean() > 0.1
    looked_for = torch.tensor(1e-6, requires_grad=True)
    torch.testing.assert_close(problem.residual(u, diffusivity=looked_for), 1e-6 * (u["t"] - u["xx"]))


def test_residuals_may_be_asked_for_first_within_transforms():
    points = torch.rand(9, 2)

    def square(k):
        small = poisson(1e9, 1e-3)
        return small.residual(small.derivatives(lambda x: k * torch.sin(x).sum(1, True), 1e-3 * points)).square().mean()

    assert torch.func.grad(square)(torch.tensor(1.0)).isfinite()
    shared = poisson(1e9, 1e-3)
    with torch.inference_mode():
        shared.residual(shared.derivatives(lambda x: x.sum(1, True), points))
    weight = torch.ones((), requires_grad=True)
    shared.residual(shared.derivatives(lambda x: weight * torch.sin(x).sum(1, True), points)).sum().backward()
    assert weight.grad is not None


def test_what_cannot_be_measured_is_left():
    eigen = create_problem("eigenvalue")
    assert balance(eigen, eigen.coefficients) is None
    odd = Problem(name="odd", domain={"x": (0, 1)}, equation=lambda u: 1e9 * torch.log(u["x"]), boundary=0.0)
    assert balance(odd, {}) is None
