"""Errors of ordinary differential equations against those that are known, and verdicts on their solutions."""

import math

import numpy as np
import pytest
import torch

from evolvent.analysis.solutions import LinearisedOrdinary, check_trust, why_not_ordinary
from evolvent.equations.problems import Condition, Problem, create_problem, disc


def at_start(residual):
    return Condition("slope at the start", {"t": 0}, residual)


def start(name, end, equation, **given):
    return Problem(name=name, domain={"t": (0, end)}, equation=equation, **{"initial": 1.0, **given})


def ends(name, equation, **given):
    return Problem(name=name, domain={"x": (0, 1)}, equation=equation, **given)


def rotation(u):
    return [u.component(0)["t"] - u.component(1).value, u.component(1)["t"] + u.component(0).value]


def second_and_first_order(u):
    return [u.component(0)["tt"] + u.component(0).value, u.component(1)["t"] + u.component(0).value]


def circle(t):
    return torch.cat([torch.cos(t), -torch.sin(t)], 1)


PAIR = {"unknowns": ("q", "p"), "initial": (1.0, 0.0)}
EQUATIONS = {
    "decay": (start("decay", 5, lambda u: u["t"] + u.value), lambda t: torch.exp(-t)),
    "growth": (start("growth", 5, lambda u: u["t"] - u.value), torch.exp),
    "stiff": (
        start("stiff", 1, lambda u: u["t"] + 1e3 * (u.value - torch.cos(u.points["t"])) + torch.sin(u.points["t"])),
        torch.cos,
    ),
    "oscillator": (
        start("oscillator", 60, lambda u: u["tt"] + u.value, conditions=[at_start(lambda u: u["t"])]),
        torch.cos,
    ),
    "damped": (
        start(
            "damped", 30, lambda u: u["tt"] + 0.2 * u["t"] + 1.01 * u.value,
            conditions=[at_start(lambda u: u["t"] + 0.1 * u.value)],
        ),
        lambda t: torch.exp(-0.1 * t) * torch.cos(t),
    ),
    "system": (start("system", 10, rotation, **PAIR), circle),
    "mixed orders": (
        start("mixed", 4, second_and_first_order, conditions=[at_start(lambda u: u.component(0)["t"])], **PAIR),
        circle,
    ),
    "layer": (
        ends("layer", lambda u: u["xx"] - 400 * u.value, boundary=lambda x: torch.exp(-20 * x)),
        lambda x: torch.exp(-20 * x),
    ),
    "slope": (
        ends(
            "slope", lambda u: u["xx"] + torch.sin(u.points["x"]),
            conditions=[
                Condition("left", {"x": 0}, lambda u: u.value),
                Condition("right", {"x": 1}, lambda u: u["x"] - math.cos(1)),
            ],
        ),
        torch.sin,
    ),
    "third order": (
        ends(
            "third", lambda u: u["xxx"] + torch.cos(u.points["x"]),
            conditions=[
                Condition("left", {"x": 0}, lambda u: [u.value, u["x"] - 1]),
                Condition("right", {"x": 1}, lambda u: u.value - math.sin(1)),
            ],
        ),
        torch.sin,
    ),
    "periodic": (
        ends(
            "ring", lambda u: u["xx"] - u.value + (1 + 4 * math.pi**2) * torch.sin(2 * math.pi * u.points["x"]),
            symmetry={"x": "periodic"},
        ),
        lambda x: torch.sin(2 * math.pi * x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUATIONS)
def test_the_error_is_found(name):
    problem, exact = EQUATIONS[name]
    assert why_not_ordinary(problem) == ""
    wave = 2 * math.pi if name == "periodic" else 2.0
    off = lambda x: exact(x) + 1e-4 * torch.sin(wave * x + 0.3)  # noqa: E731
    lin = LinearisedOrdinary(problem, off)
    true = (exact(lin.points) - off(lin.points)).numpy()
    np.testing.assert_allclose(lin.error(), true, atol=1e-3 * np.abs(true).max())
    assert dict.fromkeys(check_trust(problem, off).not_checked) == {"second solution": None}


@pytest.mark.parametrize("name", ["oscillator", "stiff"])
def test_a_large_residual_that_leaves_a_small_error_is_trusted(name):
    problem, exact = EQUATIONS[name]
    trust = check_trust(problem, lambda t: exact(t) + 7e-5 * torch.sin(t / 30 + 0.3))
    assert {one.name: one.value for one in trust.checks}["residual on fresh points"] > 0.02
    assert trust.trusted, trust.verdict
    assert not check_trust(problem, lambda t: 0.9 * exact(t)).trusted


def test_what_is_not_determined_is_not_judged():
    free = start("free", 1, lambda u: u["tt"] + u.value)
    trust = check_trust(free, torch.cos)
    assert "1 conditions where 2 are needed" in trust.not_checked["linearised error"]
    assert "its errors were not followed, since it has 1 conditions where 2 are needed" in trust.verdict
    same = start("same", 1, lambda u: [u.component(0)["t"], u.component(0)["t"]], **PAIR)
    with pytest.raises(np.linalg.LinAlgError, match="an unknown has no derivative"):
        LinearisedOrdinary(same, circle).error()
    half = start("half", 1, lambda u: u.component(0)["t"], unknowns=("a", "b"))
    with pytest.raises(np.linalg.LinAlgError, match="1 equations for 2 unknowns"):
        LinearisedOrdinary(half, lambda t: torch.cat([t, t], 1)).error()


NEUMANN = [Condition(name, {"x": at}, lambda u: u["x"]) for name, at in (("left", 0), ("right", 1))]
UNDETERMINED = {
    "constant": (
        ends("slopes", lambda u: u["xx"] + math.pi**2 * torch.cos(math.pi * u.points["x"]), conditions=NEUMANN),
        lambda x: torch.cos(math.pi * x) + 5,
    ),
    "resonance": (
        ends("resonance", lambda u: u["xx"] + math.pi**2 * u.value, boundary=0.0),
        lambda x: 7 * torch.sin(math.pi * x),
    ),
}


@pytest.mark.parametrize("name", UNDETERMINED)
def test_an_error_is_not_stated_of_what_is_hardly_determined(name):
    problem, u = UNDETERMINED[name]
    trust = check_trust(problem, u)
    assert "its errors were not followed" in trust.verdict
    assert "linearised error" in trust.not_checked


@pytest.mark.parametrize("end", [20, 25])
def test_what_grows_is_followed_from_its_start(end):
    grown = start("grown", end, lambda u: u["t"] - u.value)
    lin = LinearisedOrdinary(grown, lambda t: torch.exp(t) * (1 + 1e-3 * torch.sin(3 * t)))
    true = -torch.exp(lin.points) * 1e-3 * torch.sin(3 * lin.points)
    np.testing.assert_allclose(lin.error(), true.numpy(), atol=0.3 * true.abs().max().item())
    assert lin.is_determined()


def test_coefficients_may_be_infinite_at_an_end():
    at_centre = [Condition("centre", {"x": 0}, lambda u: u["x"]), Condition("edge", {"x": 1}, lambda u: u.value)]
    ball = ends("ball", lambda u: u["xx"] + 2 / u.points["x"] * u["x"] + 6, conditions=at_centre)
    trust = check_trust(ball, lambda x: 1 - x**2 + 1e-3 * torch.sin(3 * x + 0.3))
    assert "Trust it to about 0.001" in trust.verdict


def test_an_error_over_which_the_equation_is_not_linear_is_not_trusted():
    table = torch.linspace(-10, 10, 20_001)
    look_up = lambda v: table[((v + 10) * 1000).round().long().clamp(0, 20_000)]  # noqa: E731  # without a slope
    course = lambda t: 2 + torch.sin(t)  # noqa: E731
    problem = start(
        "table", 3, lambda u: u["t"] - torch.cos(u.points["t"]) - 3 * (look_up(u.value) - course(u.points["t"])),
        initial=2.0,
    )  # fmt: skip
    trust = check_trust(problem, lambda t: course(t) + 1e-4 * torch.expm1(3 * t))
    assert not trust.trusted
    assert "its equation is not linear" in trust.verdict


def test_a_spike_between_the_places_of_the_grid_is_not_overlooked():
    bistable = start("bistable", 1, lambda u: u["t"] - (u.value - u.value**3))
    jump = lambda t: torch.tanh((0.50023 - t) / 2e-5)  # noqa: E731
    assert not check_trust(bistable, jump, second=jump).trusted


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (create_problem("heat"), "one coordinate"),
        (create_problem("poisson-disc"), "one coordinate"),
        (ends("inside", lambda u: u["x"], conditions=[Condition("m", {"x": 0.5}, lambda u: u.value)]), "not lie at an"),
        (ends("whole", lambda u: u.laplacian, boundary=0.0), "u_laplacian"),
        (ends("odd", lambda u: u["x"], conditions=[Condition("m", {"x": 0}, lambda u: u.gradient)]), "asks for grad"),
    ],
    ids=lambda one: getattr(one, "name", None),
)  # fmt: skip
def test_what_cannot_be_followed_is_told(problem, reason):
    assert reason in why_not_ordinary(problem)


def epidemic(end=60):
    def equation(u):
        susceptible, infected = u.component(0), u.component(1)
        new = 0.5 * susceptible.value * infected.value
        return [susceptible["t"] + new, infected["t"] - new + 0.1 * infected.value]

    return Problem(
        name="epidemic", domain={"t": (0, end)}, unknowns=("S", "I"), initial=(0.999, 0.001), equation=equation
    )


def test_an_epidemic_that_does_not_break_out_is_not_trusted():
    none = lambda t: torch.cat([1 + 0 * t, 0 * t], 1)  # noqa: E731
    trust = check_trust(epidemic(), none, second=none)
    assert not trust.trusted
    assert "linearised equation it is off by" in trust.verdict


def test_a_small_unknown_is_said_not_to_be_judged():
    cooling = Problem(
        name="cooling", domain={"t": (0, 5)}, unknowns=("T", "c"), initial=(350.0, 1.0),
        equation=lambda u: [
            u.component(0)["t"] + 0.2 * (u.component(0).value - 300), u.component(1)["t"] + 3 * u.component(1).value
        ],
    )  # fmt: skip
    stays = lambda t: torch.cat([300 + 50 * torch.exp(-0.2 * t), 1 + 0 * t], 1)  # noqa: E731
    trust = check_trust(cooling, stays)
    assert "c is not judged by itself, since it is 0.003 times as large as T" in trust.verdict
    assert "c" in trust.not_checked


def test_growth_in_two_dimensions_is_said_not_to_be_looked_at():
    level = Problem(
        name="level", domain={"x": (0, 1), "y": (0, 1), "t": (0, 1)}, initial=1.0, boundary=1.0,
        equation=lambda u: u["t"] - 0.01 * u.laplacian,
    )  # fmt: skip
    one = lambda points: 1 + 0 * points[:, :1]  # noqa: E731
    assert "whether small errors grow was not looked at" in check_trust(level, one, second=one).verdict


def test_regions_are_judged_inside_alone():
    cap = lambda x, y: (1 - x * x - y * y) ** 1.5  # noqa: E731  # NaN outside of the disc
    still = Condition("still", {"t": 0}, lambda u: u.value - cap(u.points["x"], u.points["y"]))
    problem = Problem(
        name="cap", domain={"x": (-1, 1), "y": (-1, 1), "t": (0, 1)}, region=disc(), initial=cap, boundary=0.0,
        equation=lambda u: u["t"] - 0.05 * u.laplacian, conditions=[still],
    )  # fmt: skip
    assert 0.9 < problem.scale <= 1
    trust = check_trust(problem, lambda points: cap(points[:, :1], points[:, 1:2]))
    assert {one.name: one.passed for one in trust.checks}["initial value"]
    assert {one.name: one.passed for one in trust.checks}["still"]


@pytest.mark.parametrize("stated", ["boundary", "conditions"])
def test_ends_count_however_they_are_stated(stated):
    held = [Condition(f"x = {at}", {"x": at}, lambda u: u.value - 1) for at in (0, 1)]
    given = {"boundary": 1.0} if stated == "boundary" else {"conditions": held}
    problem = Problem(
        name="unstable", domain={"x": (0, 1), "t": (0, 12)},
        equation=lambda u: u["t"] - 0.01 * u["xx"] - (u.value - 1) * (2 - u.value),
        initial=lambda x: 1 + 0.001 * torch.sin(math.pi * x), **given,
    )  # fmt: skip
    trust = check_trust(problem, lambda points: 1 + 0 * points[:, :1])
    assert not trust.trusted
    assert "linearised equation it is off by" in trust.verdict
