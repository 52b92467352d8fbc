"""Conditions on faces: too few to determine a solution, and more than can hold."""

import pytest
import torch

from evolvent.equations.problems import PROBLEMS, Condition, Problem, create_problem, disc, list_problems
from evolvent.errors import ConfigError
from evolvent.tasks.pde.checks import check_conditions
from evolvent.tasks.pde.faces import check_sides


def stated(**changes) -> Problem:
    given = {
        "name": "rod",
        "domain": {"x": (0.0, 1.0), "t": (0.0, 1.0)},
        "equation": lambda u: u["t"] - u["xx"],
        "initial": lambda x: torch.cos(torch.pi * x),
    }
    return Problem(**{**given, **changes})


def held(at, value=0.0, name="x"):
    return Condition(f"{name} held at {value:g}", {name: at}, lambda u: u.value - value)


def slope(at, value=0.0):
    return Condition(f"slope at {at:g}", {"x": at}, lambda u: u["x"] - value)


def begins(*residuals):
    return Condition("begins", {"t": 0.0}, lambda u: [residual(u) for residual in residuals])


def test_every_problem_of_the_library_is_determined_and_consistent():
    own = [name for name in list_problems() if PROBLEMS.get(name).__module__.startswith("evolvent.")]
    assert len(own) >= 14
    for name in own:
        check_sides(create_problem(name))
        check_conditions(create_problem(name))


STEADY = {"domain": {"x": (0.0, 1.0), "y": (0.0, 2.0)}, "equation": lambda u: -u.laplacian - 1.0, "initial": None}
OSCILLATOR = {"domain": {"t": (0.0, 1.0)}, "equation": lambda u: u["tt"] + u.value, "initial": None}
PAIR = {
    "domain": {"t": (0.0, 1.0)},
    "unknowns": ("u", "v"),
    "equation": lambda u: [u.component(0)["t"] - u.component(1).value, u.component(1)["t"] + u.component(0).value],
    "initial": None,
}
PENDULUM = {
    "domain": {"t": (0.0, 1.0)},
    "unknowns": ("x", "y", "tension"),
    "equation": lambda u: [
        u.component(0)["tt"] + u.component(2).value * u.component(0).value,
        u.component(1)["tt"] + u.component(2).value * u.component(1).value + 1,
        u.component(0).value ** 2 + u.component(1).value ** 2 - 1,
    ],
    "initial": None,
}
first, second = (lambda u: u.component(0).value - 1), (lambda u: u.component(1).value)
CURVE = {"domain": {"x": (0.0, 1.0)}, "equation": lambda u: u["xx"] + u.value, "initial": None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "nothing is given at x = 0 and x = 1 for 'rod', whose equation is of order 2 in x"),
        ({"conditions": [slope(0.0)]}, "nothing is given at x = 1 "),
        ({"symmetry": {"x": "even"}, "initial": lambda x: 0 * x}, "nothing is given at x = 0 and x = 1 "),
        (STEADY, "nothing is given at x = 0 and x = 1"),
        ({**STEADY, "region": disc()}, "nothing is given"),
        ({**STEADY, "symmetry": {"x": "periodic"}}, "nothing is given at y = 0 and y = 2 "),
        ({**CURVE, "conditions": [held(0.0)]}, "nothing is given at x = 1 "),
        ({"initial": None, "conditions": [held(0.0), held(1.0)]}, "has 0 conditions in t where 1 is needed"),
        ({"equation": lambda u: u["tt"] - u["xx"], "boundary": 0.0}, "has 1 condition in t where 2 are needed"),
        ({**OSCILLATOR, "conditions": [begins(lambda u: u.value)]}, "has 1 condition in t where 2 are needed"),
        ({**OSCILLATOR, "symmetry": {"t": "even"}}, "has 0 conditions in t where 2 are needed"),
        ({**PAIR, "conditions": [begins(first)]}, "has 1 condition in t where 2 are needed"),
        ({**PENDULUM, "conditions": [begins(first)]}, "has 1 condition in t where 2 are needed"),
    ],
)
def test_a_side_without_a_condition_is_named(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        check_sides(stated(**changes))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "changes",
    [
        {"equation": lambda u: u["t"] + u["x"]},  # transport
        {"conditions": [slope(0.0), slope(1.0)]},
        {"symmetry": {"x": "periodic-even"}},
        {"symmetry": {"x": "even"}, "conditions": [held(1.0)]},
        {"equation": lambda u: u["t"] - u.points["x"] * (1 - u.points["x"]) * u["xx"]},  # degenerate at both ends
        {"equation": lambda u: u["t"] - u.points["x"] * u["xx"], "conditions": [held(1.0)]},
        {**STEADY, "boundary": lambda x, y: 0 * x},
        {**CURVE, "conditions": [held(0.0), slope(0.0, 1.0)]},  # begins at one end
        {**OSCILLATOR, "conditions": [begins(lambda u: u.value - 1, lambda u: u["t"])]},
        {**OSCILLATOR, "domain": {"t": (-1, 1)}, "symmetry": {"t": "even"}, "conditions": [held(1.0, name="t")]},
        {**OSCILLATOR, "domain": {"t": (-1, 1)}, "symmetry": {"t": "odd"}, "conditions": [held(1.0, name="t")]},
        {**OSCILLATOR, "equation": lambda u: u.points["t"] * (u["tt"] + u.value) + 2 * u["t"], "initial": 1.0},
        {**OSCILLATOR, "equation": lambda u: u["tt"] + u.value + 2 / u.points["t"] * u["t"], "initial": 1.0},
        {**OSCILLATOR, "equation": lambda u: u.points["t"] * u["t"] + u.value - 2 * u.points["t"]},
        {**PAIR, "conditions": [begins(first, second)]},
        {**PAIR, "conditions": [held(0.0, name="t")]},
        {**PAIR, "initial": (1.0, 0.0)},
        {**PENDULUM, "conditions": [begins(first, lambda u: u.component(0)["t"])]},
    ],
)
def test_what_determines_a_solution_is_enough(changes):
    check_sides(stated(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"boundary": lambda x, t: 5 + 0 * x},
            "boundary of 'rod' contradicts the initial value where they meet: it is",
        ),
        (
            {"conditions": [Condition("both", {"x": 0.0}, lambda u: [u.value - 1, u.value - 2])]},
            "'both' of 'rod' contradicts itself at x = 0",
        ),
        ({"conditions": [held(0.0, 1.0), held(0.0, 2.0)]}, "'x held at 1' and 'x held at 2' of 'rod' contradict"),
        ({"conditions": [slope(1.0), held(0.0, 1.0), slope(1.0, 3.0)]}, "'slope at 1' and 'slope at 1' of 'rod'"),
        (
            {"boundary": lambda x, t: torch.cos(torch.pi * x), "conditions": [held(1.0, 4.0)]},
            "'x held at 4' and 'boundary' of 'rod' contradict each other at x = 1",
        ),
    ],
)
def test_contradictions_are_named(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        check_conditions(stated(**changes))
    assert len(str(caught.value)) < 300


def test_conditions_that_can_hold_together_are_accepted():
    mixed = Condition("exchange", {"x": 0.0}, lambda u: u["x"] + u.value - 1)
    curved = Condition("curved", {"x": 0.0}, lambda u: u.value**2 - 1)
    one = held(0.0, 1.0)
    for conditions in ([one, slope(0.0)], [one, mixed], [curved, one], [one, one]):
        check_conditions(stated(conditions=conditions))
