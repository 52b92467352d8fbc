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
        assert (magnitudes(problem) > USUAL[0]).all()
        assert (magnitudes(problem) < USUAL[1]).all()
    assert balance(problem) is None


@pytest.mark.parametrize("factor", [1e-12, 1e-5, 1e5, 1e12])
def test_a_factor_of_the_equation_does_not_count(factor):
    points = torch.rand(50, 2, dtype=torch.float64)
    of = lambda problem: problem.residual(problem.derivatives(lambda x: torch.sin(3 * x).sum(1, True), points))  # noqa: E731
    torch.testing.assert_close(of(poisson(factor)), of(poisson(1e20)), rtol=1e-9, atol=0)


def test_units_of_length_and_size_do_not_count():
    assert magnitudes(poisson(1e-5, 1e3, size=1e6)).item() == pytest.approx(1e-11 * magnitudes(poisson()).item())
    assert balance(poisson(1e-5, 1e3, size=1e6)).item() == pytest.approx(1e11 / magnitudes(poisson()).item())


def test_equations_of_a_system_are_each_brought_to_order_one():
    system = Problem(
        name="system", domain={"x": (0, 1)}, unknowns=("a", "b"), boundary=0.0,
        equation=lambda u: [u.component(0)["xx"] - 1, 1e9 * (u.component(1)["xx"] - 1)],
    )  # fmt: skip
    factors = balance(system)
    assert factors[0] == 1
    assert factors[1] == pytest.approx(1e-9 / 4, rel=1)
    points = torch.rand(20, 1, dtype=torch.float32)
    found = system.residual(system.derivatives(lambda x: torch.cat([x**2, x**2], 1), points))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, factors.float() * torch.tensor([1.0, 1e9], dtype=torch.float32).expand(20, 2))


def test_what_cannot_be_measured_is_left():
    assert balance(create_problem("eigenvalue")) is None
    odd = Problem(name="odd", domain={"x": (0, 1)}, equation=lambda u: 1e9 * torch.log(u["x"]), boundary=0.0)
    assert balance(odd) is None
