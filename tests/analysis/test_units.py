"""Verdicts do not depend on the units of equations and conditions, nor on how much a solution grows."""

import math

import pytest
import torch

from evolvent.analysis.solutions import check_trust, why_not
from evolvent.equations.problems import Condition, Problem

pytestmark = pytest.mark.filterwarnings("ignore::evolvent.equations.fallback.JetFallbackWarning")  # of closed forms

UNIT, SQUARE = {"t": (0, 1)}, {"x": (0, 1), "t": (0, 1)}
PLANE = {"x": (0, 1), "y": (0, 1), "t": (0, 1)}
STEADY = {"x": (0, 1), "y": (0, 1)}
sin, exp, tanh, pi = torch.sin, torch.exp, torch.tanh, math.pi


def column(points, k):
    return points[:, k : k + 1]


def held(at, value=1.0, name="x"):
    return Condition(f"{name} = {at}", {name: at}, lambda u: u.value - value)


def logistic(start):
    return lambda t: start(t) * exp(15 * t) / (1 + start(t) * (exp(15 * t) - 1))


GROWTH = {"domain": UNIT, "equation": lambda u: u["t"] - 10 * u.value}
LOGISTIC = {
    "domain": PLANE,
    "equation": lambda u: u["t"] - 15 * u.value * (1 - u.value) - 0.1 * (u["xx"] + u["yy"]),
    "initial": 1e-3,
}
SPREAD = {
    "domain": PLANE,
    "equation": lambda u: u["t"] - 10 * u.value - 0.01 * (u["xx"] + u["yy"]),
    "initial": lambda x, y: torch.cos(pi * x),
}
TWO = {
    "domain": UNIT,
    "unknowns": ("u", "v"),
    "equation": lambda u: [
        1e6 * (u.component(0)["t"] + u.component(0).value),
        u.component(1)["t"] + u.component(1).value,
    ],
}
LIST = Condition("left", {"x": 0}, lambda u: [u.value - 1, 1e6 * (u["x"] - 1)])
LINE = {"domain": {"x": (0, 1)}, "equation": lambda u: u["xx"], "conditions": [LIST]}
WARMED = {
    "domain": {"x": (0, 1), "y": (0, 1), "t": (0, 1)},
    "equation": lambda u: u["t"] - u["xx"] - u["yy"] - 1e-4,
    "initial": 0.0,
    "boundary": 0.0,
}
CHARGED = {"domain": {"x": (0, 1)}, "equation": lambda u: u["xx"] - torch.sinh(u.value), "boundary": 10.0}
FLUX = {
    "domain": {**SQUARE, "y": (0, 1)},
    "equation": lambda u: u["t"] - u["xx"],
    "initial": 10.0,
    "conditions": [Condition("flux", {"x": 0}, lambda u: u["x"] - torch.sinh(u.value - 8))],
}
RISING = {"domain": {"x": (0, 1)}, "equation": lambda u: u["x"] - 10 * u.value, "conditions": [held(0)]}


@pytest.mark.parametrize(
    ("stated", "wrong", "said"),
    [
        ({**GROWTH, "initial": 1.0}, lambda p: exp(10 * p) * (1 + tanh(60 * p)), "residual on fresh points"),
        ({**GROWTH, "conditions": [held(0, 1.0, "t")]}, lambda p: 101 * exp(10 * p), "'t = 0' is off"),
        (RISING, lambda p: 101 * exp(10 * p), "'x = 0' is off"),
        (LOGISTIC, lambda p: logistic(lambda t: 1e-3 * (1 + 2 * tanh(30 * t)))(column(p, 2)), "fresh points"),
        (
            SPREAD,
            lambda p: torch.cos(pi * column(p, 0)) * exp(9.9013 * column(p, 2)) * (1 + tanh(30 * column(p, 2))),
            "residual on fresh points",
        ),
        ({**TWO, "initial": 1.0}, lambda t: torch.cat([exp(-t), 1 + 5 * t], 1), "residual on fresh points"),
        ({**TWO, "conditions": [held(0, 1.0, "t")]}, lambda t: torch.cat([exp(-t), 1 + 5 * t], 1), "fresh points"),
        (LINE, lambda x: 2 + x, "'left' is off"),
        (
            {"domain": STEADY, "equation": lambda u: u["xx"] + u["yy"], "boundary": lambda x, y: 1e-4 * x},
            lambda p: 1e-4 * (1 - column(p, 0)),
            "values on the boundary are off",
        ),
        (WARMED, lambda p: 5e-5 * (1 - column(p, 0) ** 2), "the initial value is off"),
        (CHARGED, lambda p: 10 + 0 * p, "residual on fresh points"),
        (FLUX, lambda p: 10 + 0 * column(p, 0), "'flux' is off"),
    ],
)
def test_what_is_wrong_in_small_units_or_while_it_is_small_is_not_trusted(stated, wrong, said):
    found = check_trust(Problem(name="stated", **stated), wrong)
    assert not found.trusted
    assert said in found.verdict


def localised(speed):
    return lambda p: exp(-((column(p, 0) + 0.25 - speed * column(p, 2)) ** 2 + column(p, 1) ** 2) / 0.02**2)


GOURSAT = {
    "domain": SQUARE,
    "equation": lambda u: u["xt"] - u.value,
    "initial": exp,
    "conditions": [Condition("left", {"x": 0}, lambda u: u.value - exp(u.points["t"]))],
}
ABSORBED = {
    "domain": SQUARE,
    "equation": lambda u: u["tt"] - u["xx"],
    "initial": lambda x: sin(3 * x),
    "conditions": [
        Condition("velocity", {"t": 0}, lambda u: u["t"] - 3 * torch.cos(3 * u.points["x"])),
        Condition("absorbing", {"x": 0}, lambda u: u["t"] - u["x"]),
        Condition("right", {"x": 1}, lambda u: u.value - sin(3 * (1 + u.points["t"]))),
    ],
}
COUPLED = {
    "domain": {"x": (0, 1)},
    "unknowns": ("u", "v"),
    "equation": lambda u: [u.component(0)["xx"], u.component(1)["xx"]],
    "conditions": [
        Condition("u", {"x": 0}, lambda u: u.component(0).value - 1),
        Condition("v", {"x": 0}, lambda u: u.component(1).value - 2),
        Condition("same", {"x": 1}, lambda u: u.component(0).value - u.component(1).value),
        Condition("flux", {"x": 1}, lambda u: u.component(0)["x"] + u.component(1)["x"]),
    ],
}
HEAT = {"domain": SQUARE, "equation": lambda u: u["t"] - u["xx"]}
CARRIED = {
    "domain": {"x": (-1, 1), "y": (-1, 1), "t": (0, 1)},
    "equation": lambda u: u["t"] + 0.5 * u["x"],
    "initial": lambda x, y: exp(-((x + 0.25) ** 2 + y**2) / 0.02**2),
    "boundary": 0.0,
}
INTEGRAL = {
    "domain": UNIT,
    "equation": lambda u: u.value - 1 - 0.5 * u.function(torch.full_like(u.points["t"], 0.5)),
}
SMALL_END = {**LINE, "conditions": [held(0, 1e-6), held(1, 1.0)]}


def heated_from_both_ends(p):
    waves = [4 / (k * pi) * sin(k * pi * column(p, 0)) * exp(-((k * pi) ** 2) * column(p, 2)) for k in range(1, 800, 2)]
    return 1 - (1 - 1e-3) * torch.stack(waves).sum(0)


MANY = {
    "domain": {**{f"x{k}": (0, 1) for k in range(20)}, "t": (0, 1)},
    "equation": lambda u: u["t"] - u.laplacian,
    "initial": lambda *x: sum(one * one for one in x),
    "conditions": [Condition("flux", {"x0": 0}, lambda u: u["x0"])],
}


@pytest.mark.parametrize(
    ("stated", "right"),
    [
        ({**GROWTH, "initial": 1.0}, lambda t: exp(10 * t) * (1 + 1e-3 * sin(3 * t))),
        (LOGISTIC, lambda p: logistic(lambda t: 1e-3)(column(p, 2)) * (1 + 1e-3 * column(p, 2) * column(p, 0))),
        (GOURSAT, lambda p: exp(p.sum(1, True)) + 1e-6 * sin(column(p, 0) + 3 * column(p, 1))),
        (ABSORBED, lambda p: sin(3 * p.sum(1, True)) + 1e-6 * sin(2 * column(p, 0) + column(p, 1))),
        (COUPLED, lambda x: torch.cat([1 + 0.5 * x, 2 - 0.5 * x], 1) + 1e-6 * torch.cat([sin(x), torch.cos(x)], 1)),
        ({**HEAT, "initial": 0.0, "boundary": 0.0}, lambda p: 0 * column(p, 0)),
        ({**HEAT, "domain": PLANE, "initial": 1e-3, "conditions": [held(0), held(1)]}, heated_from_both_ends),
        (CARRIED, localised(0.50005)),
        (INTEGRAL, lambda t: 2 + 0 * t),
        (MANY, lambda p: p[:, :20].square().sum(1, keepdim=True) + 40 * column(p, 20)),
        (SMALL_END, lambda x: 1e-6 + (1 - 1e-6) * x + 1e-4 * sin(pi * x)),
    ],
)
def test_what_is_right_is_trusted(stated, right):
    problem = Problem(name="stated", **stated)
    found = check_trust(problem, right)
    assert found.trusted, found.verdict


@pytest.mark.parametrize("boundary", [None, 0.0])
@pytest.mark.parametrize("eigenvalue", [0.0, pi**2, -(pi**2)])
def test_eigenvalues_of_any_sign_have_a_verdict(eigenvalue, boundary):
    problem = Problem(
        name="own",
        domain={"x": (0, 1)},
        equation=lambda u: u["xx"] + eigenvalue * u.value,
        eigenvalue=eigenvalue,
        energy=lambda u: u["x"] ** 2,
        boundary=boundary,
    )
    for u in (lambda x: 0 * x, lambda x: sin(pi * x), lambda x: x * (1 - x) * (1 + x)):
        for one in check_trust(problem, u).checks:
            assert one.value >= 0


def test_conditions_that_are_not_local_are_not_linearised():
    around = Condition(
        "periodic", {"x": 0}, lambda u: u.value - u.function(torch.cat([u.points["x"] + 1, u.points["t"]], 1))
    )
    problem = Problem(
        name="round",
        domain=SQUARE,
        equation=lambda u: u["t"] + u["x"],
        initial=lambda x: sin(2 * pi * x),
        conditions=[around],
    )
    assert "'periodic' is not local" in why_not(problem)
    found = check_trust(problem, lambda p: sin(2 * pi * (column(p, 0) - column(p, 1))) + 1e-6 * column(p, 0))
    assert found.trusted, found.verdict
