"""What is done with the time there is: network, points and optimisers for a problem, by method."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from evolvent._core.errors import ConfigError
from evolvent._core.registry import Registry
from evolvent.equations.problems import MANY, Problem
from evolvent.experiments.recipe import TrainingConfig
from evolvent.networks import create_model
from evolvent.tasks.pde.methods import energy

LEAST = 5.0
"""Seconds of the smallest budget."""

_TRIED = 500  # points on which the pace is measured
_MEASURING = 0.1  # of the time, after which one gradient must do
_WANTED = 1500  # iterations; points are fewer where the time does not allow so many
_FEWEST, _MOST = 1000, 4000  # points
_DENSE = 5000  # weights; the inverse Hessian of more takes longer than the gradient, and at last too much memory
_UPDATE = 6e-3  # seconds of an iteration that do not depend on the points: the update of the inverse Hessian
_STEP = 0.02  # of the time, at most, for one step of the engine, after which it looks at the clock
_RESAMPLED = (300, 700, 1200, 1800, 2400)  # iterations of the last optimiser: early and rarely
_DRAWS = 10_000  # steps of methods that draw new points for each; there may be fewer points for that
_ENGINE = 2e-3  # seconds of a step that do not depend on the points
_RATE = 5e-3  # of Adam at new points
_GRIDS = {1: [1025], 2: [128, 65], 3: [32, 32, 17]}
_TESTED = 8192  # random points where errors are measured in more dimensions, in which a grid is huge or coarse
_TESTED_NUMBERS = 2**20  # coordinates of all of them at most; derivatives in very many dimensions take their time


@dataclass(frozen=True)
class Pace:
    """How fast this machine is now.

    Attributes:
        seconds: for the training.
        per_point: seconds of one gradient of the objective, for each point.
    """

    seconds: float
    per_point: float

    def iteration(self, points: int) -> float:
        """Seconds of an iteration, about."""
        return _UPDATE + points * self.per_point

    def steps(self, points: int) -> float:
        """Steps of a first-order method in all of the time, about."""
        return self.seconds / (_ENGINE + points * self.per_point)


Method = Callable[[Problem, Pace, dict[str, float]], dict[str, Any]]
METHODS: Registry[Method] = Registry("method")
"""Name -> a function of the problem, the pace and the coefficients that are looked for; it gives the sections of a
recipe without the length of the training."""


def parse_budget(budget: str | float) -> float:
    """Seconds of a span of time such as 90, 45s, 5m or 1.5h."""
    found = TrainingConfig.read({"budget": budget}, "solve").budget
    assert found is not None
    if found < LEAST:
        raise ConfigError(
            f"a budget of {found:g} s is too small: to start, to train and to check takes at least {LEAST:g} s. Give "
            "60s or more for a first impression, 5m for a good solution."
        )
    return found


def measure_pace(problem: Problem, seconds: float, method: str = "pinn") -> Pace:
    """Time the gradient of a method's objective, for the default network; what that takes is off the seconds."""
    network = create_model("perceptron", **problem.network_options()).double()
    points, spent = problem.sobol(_TRIED, seed=0), []
    for _ in range(4):  # the first one compiles and fills caches
        began = time.perf_counter()
        if method == "ritz":
            energy(problem, network, points, {}).backward()
        else:
            problem.residual(problem.derivatives(network, points)).square().mean().backward()
        spent.append(time.perf_counter() - began)
        if sum(spent) > _MEASURING * seconds:
            break
    return Pace(max(1.0, seconds - sum(spent)), median(spent[1:] or spent) / _TRIED)


def _pinn(problem: Problem, pace: Pace, unknown: dict[str, float]) -> dict[str, Any]:
    """Adam on the easier problem, then self-scaled Broyden on points that are drawn anew a few times, early.

    A network of many inputs has too many weights for a dense inverse Hessian: L-BFGS takes its place.
    """
    affordable = (pace.seconds / _WANTED - _UPDATE) / pace.per_point
    points = int(min(_MOST, max(_FEWEST, affordable)))
    iteration = pace.iteration(points)
    total = pace.seconds / iteration
    per_step = int(min(50, max(2, _STEP * total)))
    steps = max(1, round(min(1000, 0.2 * total) / per_step))
    epoch_steps = max(3, round(min(250, total / 12) / per_step))
    epochs = [round((steps * per_step + n) / (epoch_steps * per_step)) for n in _RESAMPLED if n < 0.5 * total]
    weights = sum(p.numel() for p in create_model("perceptron", **problem.network_options()).parameters())
    begin: dict[str, Any] = {"steps": steps, "optimizer": {"name": "adam", "lr": 2e-3, "iterations": per_step}}
    if problem.easier and not unknown:
        begin["coefficients"] = dict(problem.easier)
    return {
        "task": {
            **_asked(problem, "pinn"),
            "phases": [begin],
            "resample_at": sorted({*epochs} - {0}),
            "unknown": unknown,
            "profile": _is_known(problem, unknown),
        },
        "data": {"name": problem.name, "points": points, **_tested(problem)},
        "model": {"name": "perceptron"},
        "optimizer": {"name": "ssbroyden" if weights <= _DENSE else "lbfgs", "iterations": per_step},
        "training": {"epoch_steps": epoch_steps, "precision": "64-true"},
    }


def _galerkin(problem: Problem, pace: Pace, unknown: dict[str, float]) -> dict[str, Any]:
    """Adam on the residual at new points in each step, on the easier problem first."""
    sections = _at_new_points(problem, pace, "galerkin")
    sections["task"] |= {"unknown": unknown, "profile": _is_known(problem, unknown)}
    if problem.easier and not unknown:
        steps = 0.2 * pace.steps(sections["data"]["points"])
        begin = {"steps": max(1, round(steps)), "optimizer": {"name": "adam", "lr": _RATE}}
        sections["task"]["phases"] = [{**begin, "coefficients": dict(problem.easier)}]
    return sections


def _ritz(problem: Problem, pace: Pace, unknown: dict[str, float]) -> dict[str, Any]:
    """Adam on the energy at new points in each step."""
    assert not unknown
    sections = _at_new_points(problem, pace, "ritz")
    sections["task"]["weights"] = {"boundary": 1000.0}  # the energy is off by about one over it
    return sections


def _at_new_points(problem: Problem, pace: Pace, method: str) -> dict[str, Any]:
    affordable = (pace.seconds / _DRAWS - _ENGINE) / pace.per_point
    points = int(min(_MOST, max(_FEWEST, affordable)))
    return {
        "task": _asked(problem, method),
        "data": {"name": problem.name, "points": points, "fresh": True, **_tested(problem)},
        "model": {"name": "perceptron"},
        "optimizer": {"name": "adam", "lr": _RATE},
        "schedule": {"name": "cosine"},
        "training": {"epoch_steps": max(3, round(min(500, pace.steps(points) / 12))), "precision": "64-true"},
    }


def _asked(problem: Problem, method: str) -> dict[str, Any]:
    """The task, with values on the boundary built in where they are 0; other ones would go on inside of the domain."""
    zero = problem.boundary is not None and not problem.boundary_values(problem.sobol(_TRIED, seed=0)).any()
    hard = zero and len(problem.space) <= MANY
    return {"name": "pde", "method": method, "boundary": "hard" if hard else "soft"}


def _is_known(problem: Problem, unknown: dict[str, float]) -> bool:
    """Whether there is a profile, which is made with coefficients that are all known."""
    return problem.profile is not None and not unknown


def _tested(problem: Problem) -> dict[str, Any]:
    """Where errors are measured."""
    grid = _GRIDS.get(len(problem.domain), [])
    if grid:
        return {"grid": grid}
    return {"grid": [], "test_points": min(_TESTED, max(1, _TESTED_NUMBERS // len(problem.domain)))}


METHODS.add("pinn", _pinn)
METHODS.add("galerkin", _galerkin)
METHODS.add("ritz", _ritz)
