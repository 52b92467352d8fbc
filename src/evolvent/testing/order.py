"""The order of a method, measured."""

from __future__ import annotations

import math
from typing import Any

import torch

from evolvent._core.state import State
from evolvent.integrators import Integrator
from evolvent.testing._distance import distance
from evolvent.testing.problems import Problem, problem_for

_COARSEST, _FINEST = 16, 1024
_ROUNDING = 1e-11


def observed_order(integrator: Integrator[Any], problem: Problem | None = None) -> float:
    r"""The slope :math:`\log_2 (e_h / e_{h/2})` of the error at the end of ``problem``, in what the problem
    observes: the position of second-order equations, all of the state otherwise.

    The step is halved until 1024 steps are made or the error comes near rounding; the last slope counts.

    >>> from evolvent.integrators import Euler
    >>> round(observed_order(Euler()), 1)
    1.0
    """
    problem = problem or problem_for(integrator)
    steps, order = _COARSEST, math.nan
    error = _error(integrator, problem, steps)
    while steps < _FINEST:
        steps *= 2
        coarse, error = error, _error(integrator, problem, steps)
        if error < _ROUNDING and not math.isnan(order):
            break
        order = math.log2(coarse / error) if error else math.inf
    return order


def advance(integrator: Integrator[Any], problem: Problem, steps: int) -> tuple[State, float]:
    """The method's own state at the end of ``problem``, and the step size."""
    h = problem.end / steps
    with torch.no_grad():
        u = integrator.start(problem.dynamics, 0.0, problem.solution(0.0), h)
        for j in range(steps):
            u = integrator.step(problem.dynamics, j * h, u, h)
    return u, h


def _error(integrator: Integrator[Any], problem: Problem, steps: int) -> float:
    u, h = advance(integrator, problem, steps)
    return distance(problem.observe(integrator.finish(u, h)), problem.observe(problem.solution(problem.end)))
