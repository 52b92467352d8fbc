"""Whether a method has the order it claims, does not change its input, and can be undone if it claims so."""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch

from evolvent import integrators
from evolvent._core.state import State, parts
from evolvent.integrators import Integrator, ReversibleIntegrator
from evolvent.testing._claims import claim, distance
from evolvent.testing.problems import Problem, problem_for
from evolvent.testing.stability import check_stability

_ORDER_TOLERANCE = 0.15
_ROUNDING = 1e-12
_STEPS_UNDONE = 8


def check_integrator(integrator: Integrator[Any], problem: Problem | None = None) -> None:
    """Measure a method's ``order``, its stability limits and, if it is reversible, that ``unstep`` undoes ``step``.

    A step may not change the state that it is given, which earlier steps and users may still hold.

    Args:
        integrator: the method.
        problem: what to measure on; by default the nonlinear problem for what the method acts on.

    >>> from evolvent.integrators import Euler
    >>> check_integrator(Euler())
    """
    problem = problem or problem_for(integrator)
    _check_input(integrator, problem)
    _check_order(integrator, problem)
    check_stability(integrator)
    if isinstance(integrator, ReversibleIntegrator):
        _check_reversible(integrator, problem)


def all_integrators() -> list[Integrator[Any]]:
    """One of every concrete method in :mod:`evolvent.integrators` that can be built without arguments.

    >>> all_integrators()
    [RK4(), ...Verlet()]
    """
    offered = [getattr(integrators, name) for name in integrators.__all__]
    return [kind() for kind in offered if isinstance(kind, type) and issubclass(kind, Integrator) and _is_plain(kind)]


def _is_plain(kind: type[Integrator[Any]]) -> bool:
    needed = [p for p in inspect.signature(kind).parameters.values() if p.default is p.empty]
    return not inspect.isabstract(kind) and all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in needed)


def _check_input(integrator: Integrator[Any], problem: Problem) -> None:
    f, h = problem.dynamics, problem.end / _STEPS_UNDONE
    with torch.no_grad():
        u = integrator.start(f, 0.0, problem.solution(0.0), h)
        before = tuple(p.clone() for p in parts(u))
        integrator.step(f, 0.0, u, h)
    claim(
        all(map(torch.equal, parts(u), before)),
        f"{integrator}: a step changes the state that it is given. Make the change of a coupling as a new tensor.",
    )


def _check_order(integrator: Integrator[Any], problem: Problem) -> None:
    order = observed_order(integrator, problem)
    claim(
        abs(order - integrator.order) <= _ORDER_TOLERANCE,
        f"{integrator} is of order {order:.2f} on the problem {problem.name!r}, claimed {integrator.order}.",
    )


def _check_reversible(integrator: ReversibleIntegrator[Any], problem: Problem) -> None:
    f = problem.dynamics
    u, h = advance(integrator, problem, _STEPS_UNDONE)
    with torch.no_grad():
        for j in reversed(range(_STEPS_UNDONE)):
            u = integrator.unstep(f, j * h, u, h)
        off = distance(u, integrator.start(f, 0.0, problem.solution(0.0), h))
    claim(
        off <= _ROUNDING,
        f"{integrator}: {_STEPS_UNDONE} steps and their unsteps end {off:.1e} from where they began, "
        f"claimed reversible (at most {_ROUNDING:g}).",
    )


_COARSEST, _FINEST = 16, 1024
_ERROR_FLOOR = 1e-11


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
        if error < _ERROR_FLOOR and not math.isnan(order):
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
