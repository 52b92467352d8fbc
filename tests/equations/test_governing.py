"""Governing equations: their terms, residuals of known solutions, and print."""

import math

import pytest
import torch
from torch import nn

from evolvent.equations import Derivatives, GoverningEquation, Term, coordinate_jets, polynomial_terms
from evolvent.errors import ConfigError, UnknownNameError


def points(count=40):
    return {"x": torch.rand(count, 1) * 2 - 1, "t": torch.rand(count, 1)}


def test_terms_of_one_and_two_coordinates():
    one, two = polynomial_terms(), polynomial_terms(("x", "y"))
    assert len(one) == 16
    assert len(two) == 28
    assert len({term.text for term in two}) == 28
    assert [term.text for term in one[:6]] == ["1", "u", "u^2", "u^3", "u_x", "u u_x"]


def test_terms_have_the_values_derived_by_hand():
    x, y = torch.rand(2, 9)
    u, along = coordinate_jets(lambda x, y: torch.sin(x) * torch.exp(2 * y), [x, y], [3, 3])
    found = {term.text: term(Derivatives(u, {"x": along[0], "y": along[1]})) for term in polynomial_terms(("x", "y"))}
    s, c, e = torch.sin(x), torch.cos(x), torch.exp(2 * y)
    expected = {
        "1": torch.ones(9), "u^3": (s * e) ** 3, "u_x": c * e, "u u_x": s * c * e * e, "u^2 u_xx": -((s * e) ** 3),
        "u^3 u_xxx": -((s * e) ** 3) * c * e, "u_yyy": 8 * s * e, "u^2 u_yy": 4 * (s * e) ** 3,
    }  # fmt: skip
    for text, value in expected.items():
        torch.testing.assert_close(found[text], value, rtol=1e-12, atol=1e-12)


def test_fixed_coefficients_give_the_same_value_without_a_gradient():
    equation = GoverningEquation(coefficients={"u u_x": -1, "u_xx": 0.1})
    u = equation.derivatives(lambda x, t: torch.sin(3 * x + t), points())
    torch.testing.assert_close(equation.residual_of(u, fixed=True), equation.residual_of(u).detach())
    assert not equation.residual_of(u, fixed=True).requires_grad


def heat(x, t):
    return torch.exp(-0.1 * math.pi**2 * t) * torch.sin(math.pi * x)


def burgers(x, t, nu=0.1):
    """Cole-Hopf: u = -2 nu phi_x / phi with phi a sum of two exponentials that solve the heat equation."""
    a, b = torch.exp(nu * t + x), torch.exp(4 * nu * t - 2 * x)
    return -2 * nu * (a - 2 * b) / (a + b)


def korteweg_de_vries(x, t, speed=1.5):
    """A soliton of u_t + 6 u u_x + u_xxx = 0."""
    return 0.5 * speed / torch.cosh(0.5 * math.sqrt(speed) * (x - speed * t)) ** 2


SOLUTIONS = {
    "heat": (heat, {"u_xx": 0.1}),
    "burgers": (burgers, {"u u_x": -1, "u_xx": 0.1}),
    "kdv": (korteweg_de_vries, {"u u_x": -6, "u_xxx": -1}),
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_known_solutions_have_no_residual(name):
    solution, coefficients = SOLUTIONS[name]
    equation = GoverningEquation(coefficients=coefficients)
    torch.testing.assert_close(equation(solution, points()), torch.zeros(40, 1), rtol=0, atol=1e-10)
    wrong = GoverningEquation(coefficients={"u_x": 1.0})
    assert wrong(solution, points()).abs().max() > 0.1


def test_two_coordinates():
    f = lambda x, y, t: torch.exp(-5 * t) * torch.sin(x) * torch.sin(2 * y)  # noqa: E731
    equation = GoverningEquation(polynomial_terms(("x", "y"), 1, 2), {"u_xx": 1.0, "u_yy": 1.0})
    x, y, t = torch.rand(3, 7, 1)
    torch.testing.assert_close(equation(f, {"x": x, "y": y, "t": t}), torch.zeros(7, 1), rtol=0, atol=1e-12)


def test_network_and_coefficients_learn_from_the_residual():
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))
    equation = GoverningEquation(coefficients={"u_xx": 0.5, "u": 1.0})
    loss = equation(lambda x, t: net(torch.cat([x, t], 1)), points()).square().mean() + 0.1 * equation.l1()
    loss.backward()
    assert equation.alpha.grad is not None
    assert equation.alpha.grad.abs().sum() > 0
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in net.parameters())
    assert equation.l1().item() == 1.5


def test_coordinates_may_be_images():
    """The shift derivative: the coordinate is a channel, moved at every pixel at once."""
    conv = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Softplus(), nn.Conv2d(3, 1, 3))
    x, t = torch.rand(2, 2, 1, 6, 6)
    assert GoverningEquation()(lambda x, t: conv(torch.cat([x, t], 1)), {"x": x, "t": t}).shape == (2, 1, 4, 4)


def test_terms_of_ones_own():
    square = Term("u_x^2", lambda u: u.of("x", 1) ** 2, {"x": 1}, latex="u_{x}^2")
    equation = GoverningEquation([*polynomial_terms(powers=0, orders=2), square], {"u_x^2": -0.5, "u_xx": 1})
    assert str(equation) == "u_t = u_xx - 0.5 u_x^2"
    assert equation.latex() == r"u_{t} = u_{xx} - 0.5 \, u_{x}^2"
    assert equation.orders() == {"t": 1, "x": 2}


def test_print_leaves_out_what_is_small():
    equation = GoverningEquation(coefficients={"1": -1.0, "u": 5.0, "u u_x": -1.0, "u_xx": 1e-4}, symbol="u")
    assert equation.text() == "u_t = -1 + 5 u - u u_x + 0.0001 u_xx"
    assert equation.text(threshold=0.01) == "u_t = -1 + 5 u - u u_x"
    assert GoverningEquation().text() == "u_t = 0"
    found = equation.sparsity(threshold=0.01)
    assert (found.kept, found.total, found.largest) == (3, 16, 5.0)
    assert "u_xx" in found.dropped
    assert "u" not in found.dropped
    assert str(found) == "3 of 16 terms, largest coefficient 5"


def test_another_symbol():
    assert str(GoverningEquation(coefficients={"h h_x": 2}, symbol="h")) == "h_t = 2 h h_x"


def test_what_is_wrong_is_said():
    with pytest.raises(UnknownNameError, match="Did you mean 'u_xx'"):
        GoverningEquation(coefficients={"uxx": 1})
    with pytest.raises(ConfigError, match="'u' occurs twice"):
        GoverningEquation([*polynomial_terms(), polynomial_terms()[1]])
    with pytest.raises(UnknownNameError, match="Points have y, t"):
        GoverningEquation()(heat, {"y": torch.rand(1), "t": torch.rand(1)})
    with pytest.raises(ConfigError, match="coefficient of 'u' must be a finite number, got nan"):
        GoverningEquation(coefficients={"u": float("nan")})
    curved = Term("u_xx^2", lambda u: u["xx"] ** 2, {"x": 1})
    with pytest.raises(ConfigError, match=r"derivative 2 in x, but only 1 .* Term\(text, function, \{'x': 2\}\)"):
        GoverningEquation([curved], {"u_xx^2": 1})(heat, {"x": torch.rand(1), "t": torch.rand(1)})
