"""What is wrong with a problem or a network, found before training."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent.equations.problems import Condition, Problem
from evolvent.equations.problems.needed import Needed
from evolvent.equations.terms import coordinates_in
from evolvent.tasks.pde.faces import check_contradictions
from evolvent.tasks.pde.settings import PdeSettings

_POINTS = 16
_NAMED = 4  # coordinates of a point in a message
_ROUNDING = 1e-6  # relative to the size of the solution


def check_conditions(problem: Problem) -> None:
    """Refuse conditions that contradict each other, and an initial value that does so with a symmetry or where it meets
    conditions and boundary values."""
    check_contradictions(problem)
    if problem.initial is None:
        return
    for name, kind in problem.symmetry.items():
        if name != problem.time and (off := _asymmetry(problem, name, kind)) > _ROUNDING * problem.scale:
            raise ConfigError(
                f"the initial value of {problem.name!r} is not {kind} in {name}, as its symmetry says: it is off by "
                f"{off:.3g}. Correct the initial value, or leave {name} out of symmetry."
            )
    for said, off in _corners(problem):
        if off > _ROUNDING * problem.scale:
            raise ConfigError(
                f"{said} of {problem.name!r} contradicts the initial value where they meet: it is off by {off:.3g} at "
                f"{problem.time} = {problem.domain[problem.time][0]:g}. Correct one of them; a jump that is meant can "
                "be made smooth: let the condition reach its value within a short time."
            )


def _corners(problem: Problem) -> Iterator[tuple[str, float]]:
    """How far the initial value is from all that meets it."""
    if problem.boundary is not None:
        numbers = torch.quasirandom.SobolEngine(len(problem.domain), scramble=True, seed=1)
        edge = problem.on_boundary(numbers.draw(4 * _POINTS, dtype=torch.float64))
        edge[:, problem.coordinates.index(problem.time)] = problem.domain[problem.time][0]
        yield "boundary", (problem.boundary_values(edge) - problem.initial_values(edge)).abs().max().item()
    for condition in problem.conditions:
        off = _corner(problem, condition)
        if off is not None:
            yield f"condition {condition.name!r}", off


def _asymmetry(problem: Problem, name: str, kind: str) -> float:
    """How far the initial value is from its symmetry about the middle of a coordinate."""
    points, (low, high) = problem.sobol(_POINTS, seed=1), problem.domain[name]
    axis = problem.coordinates.index(name)
    off = torch.zeros(1, dtype=torch.float64)
    if "periodic" in kind:
        ends = [_moved(points, axis, torch.full((len(points),), end, dtype=points.dtype)) for end in (low, high)]
        off = problem.initial_values(ends[0]) - problem.initial_values(ends[1])
    if "even" in kind or "odd" in kind:
        mirrored = _moved(points, axis, low + high - points[:, axis])
        sign = 1 if "even" in kind else -1
        across = problem.initial_values(points) - sign * problem.initial_values(mirrored)
        off = torch.cat([off.flatten(), across.flatten()])
    return off.abs().max().item()


def _moved(points: Tensor, axis: int, to: Tensor) -> Tensor:
    points = points.clone()
    points[:, axis] = to
    return points


def _corner(problem: Problem, condition: Condition) -> float | None:
    """What a condition makes of the initial value; None where they do not meet, or it asks for change in time."""
    probe = Needed(problem.coordinates, len(problem.unknowns))
    condition.violation(probe)
    start = problem.domain[problem.time][0]
    if any(problem.time in name for name in probe.asked) or condition.where.get(problem.time, start) != start:
        return None
    points = problem.sobol(_POINTS, seed=1)
    for name, value in {**condition.where, problem.time: start}.items():
        points = _moved(points, problem.coordinates.index(name), torch.full((len(points),), value, dtype=points.dtype))
    u = problem.derivatives(problem.initial_values, points, sorted(probe.asked))
    return condition.violation(u).abs().max().item()


def check_finite(problem: Problem) -> None:
    """Refuse coefficients, initial values and boundary values that are not finite."""
    for name, value in problem.coefficients.items():
        if not math.isfinite(value):
            raise ConfigError(f"the coefficient {name} of {problem.name!r} is {value}. Give a finite number.")
    points = problem.spread(8 * _POINTS, seed=3)
    if problem.initial is not None:
        _refuse_non_finite(problem, "initial value", problem.initial_values(points), points)
    if problem.boundary is not None:
        numbers = torch.quasirandom.SobolEngine(len(problem.domain), scramble=True, seed=3)
        edge = problem.on_boundary(numbers.draw(8 * _POINTS, dtype=torch.float64))
        _refuse_non_finite(problem, "boundary value", problem.boundary_values(edge), edge)


def _refuse_non_finite(problem: Problem, what: str, values: Tensor, points: Tensor) -> None:
    bad = ~values.isfinite().all(1)
    if bad.any():
        first = points[bad][0].tolist()
        named = [f"{name} = {value:.3g}" for name, value in zip(problem.domain, first, strict=True)]
        where = ", ".join(named[:_NAMED]) + (", ..." if len(named) > _NAMED else "")
        raise ConfigError(
            f"the {what} of {problem.name!r} is not finite at {int(bad.sum())} of {len(bad)} points before any "
            f"training, first at {where}. Check it for divisions and roots there."
        )


def check_network(problem: Problem, model: nn.Module) -> None:
    """Refuse a network whose derivatives vanish where the equation needs them, and an equation that says nothing or is
    not finite for it."""
    like = next(model.parameters())
    points = problem.sobol(_POINTS, seed=2).to(like)
    u = problem.derivatives(model, points)
    with torch.no_grad():
        _refuse_non_finite(problem, "residual of the equation", problem.residual(u), points)
    for name in problem.derivatives_needed:
        if name in ("function", "gradient"):
            continue
        second = name == "laplacian" or len(coordinates_in(name)) > 1
        if second and not (u.laplacian if name == "laplacian" else u[name]).any():
            raise ConfigError(
                f"the equation of {problem.name!r} needs u_{name}, which is zero everywhere for this network: its "
                "layers are not smooth enough. Take perceptron, whose tanh has all derivatives."
            )
    if not problem.residual(Needed(problem.coordinates, len(problem.unknowns), len(problem.space))).any():
        raise ConfigError(
            f"the residual of {problem.name!r} is zero whatever u is, so there is nothing to solve. Check the "
            "equation: its two sides may be the same."
        )


def check_unknown(problem: Problem, settings: PdeSettings, samples: bool) -> None:
    """Refuse coefficients that the equation does not have, and a search for them without samples."""
    for name in settings.unknown:
        if name not in problem.coefficients:
            raise UnknownNameError("coefficient", name, problem.coefficients, f"{problem.name!r} has these alone.")
    if settings.unknown and not samples:
        raise ConfigError(
            f"unknown coefficients ({', '.join(settings.unknown)}) need samples of the solution to be found from. Give "
            "data.samples, or data.file with measured ones."
        )
    if settings.unknown and settings.library is not None:
        raise ConfigError("task.unknown looks for coefficients, task.library for the equation. Give one of them.")
