"""Whether to trust a solution that there is no reference for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from evolvent.analysis.solutions.linearised import LinearisedProblem, why_not
from evolvent.analysis.solutions.ordinary import LinearisedOrdinary, why_not_ordinary
from evolvent.analysis.solutions.uncertainty import Estimates
from evolvent.analysis.solutions.units import Units, on_boundary, on_face, places
from evolvent.equations.problems import Invariant, Problem

TOLERANCE = 0.01
"""Relative error up to which a solution is trusted unless another is asked for."""

_FRESH = 4096  # points where the residual is looked at anew
_FRESH_NUMBERS = 2**19  # coordinates of all of them at most, so that very many dimensions do not take minutes
_PEAKS, _AROUND = 16, 64  # largest residuals around which more points are drawn, and how many
_OVERFITTED = 3.0  # residual on fresh points over that on the training points
_HIDDEN = 30.0  # largest residual found by refining over the largest on the training points
_UNRESOLVED = 3.0  # the residual on fresh points over that on the grid of a linearised equation
_SPACE, _TIMES = 401, 41  # grid of invariants
_COEFFICIENTS, _LINEARISED = "coefficients", "linearised error"
# come first in a verdict
_TELLING = (_COEFFICIENTS, "second solution", "fresh over training residual", _LINEARISED)
_REASONS = 3  # in a verdict at most

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Check:
    """One way to look at a solution.

    Attributes:
        name: what is looked at.
        value: what was measured.
        limit: that it must not exceed; None if it is only reported.
        said: in words, for the verdict.
        estimates: whether the value is a relative error of the solution.
    """

    name: str
    value: float
    limit: float | None
    said: str
    estimates: bool = False

    @property
    def passed(self) -> bool:
        return self.limit is None or self.value <= self.limit


@dataclass(frozen=True)
class Trust:
    """A verdict on a solution, with what it rests on.

    Attributes:
        trusted: whether all checks were passed.
        verdict: one line: whether to trust it, and why.
        checks: in the order in which they were made.
        not_checked: what could not be looked at, and why.
        error: the error to first order on a grid, (places, times, unknowns), or (places, unknowns) of one coordinate;
            None if it was not computed.
        tolerance: relative error up to which it is trusted.
    """

    trusted: bool
    verdict: str
    checks: list[Check]
    not_checked: dict[str, str] = field(default_factory=dict)
    error: np.ndarray | None = None
    tolerance: float = TOLERANCE


def check_trust(
    problem: Problem,
    u: Function,
    *,
    trained_at: Tensor | None = None,
    second: Function | None = None,
    tolerance: float = TOLERANCE,
    seed: int = 0,
    estimates: Estimates | None = None,
) -> Trust:
    r"""Look at a solution from all sides, without a reference.

    - The residual on fresh points, against that on the points of the training: a network that fits few points leaves
      more elsewhere. It is measured in units of what an error as large as the solution leaves
      (:class:`~evolvent.analysis.solutions.units.Units`).
    - The largest residual found by drawing more points where it is large.
    - The violation of the initial value, of the values on the boundary and of each condition, in such units too.
    - Whether an eigenfunction is 0, which solves its equation as well.
    - A second solution from another seed: two wrong ones are seldom wrong in the same way.
    - Quantities that are conserved or decay.
    - The error to first order, from the linearised equation with the residual as its source
      (:class:`~evolvent.analysis.solutions.LinearisedProblem`, or
      :class:`~evolvent.analysis.solutions.LinearisedOrdinary` of one coordinate): a small residual may still mean a
      large error where the equation lets errors grow.
    - The errors of coefficients that were found from samples.

    Args:
        problem: what is solved.
        u: the solution, (N, coordinates) to (N, unknowns).
        trained_at: points of the training.
        second: another solution of the same problem.
        tolerance: relative error up to which it is trusted.
        seed: of the fresh points.
        estimates: coefficients that were found together with the solution, whose errors are errors of it too.
    """
    fresh = _places(problem, 10_007 + seed)
    units = Units(problem, u, fresh)
    linearised, error, reason = _linearised(problem, u, tolerance, fresh)
    told = len(problem.domain) == 1 and linearised is not None and linearised.passed  # what the residual amounts to
    checks = [
        *_residuals(problem, u, trained_at, tolerance, None if told else 10 * tolerance, fresh, units),
        *_conditions(problem, u, None if told else tolerance, units),
    ]
    if problem.eigenvalue is not None:
        checks.append(_zero(u, fresh))
    missing: dict[str, str] = {}
    if second is None:
        missing["second solution"] = "there is none"
    else:
        checks.append(_difference(problem, u, second, tolerance))
    if problem.time in problem.domain and len(problem.space) == 1:
        checks += [_invariant(problem, u, name, one, tolerance) for name, one in problem.invariants.items()]
    if linearised is None:
        missing[_LINEARISED] = reason
    else:
        checks.append(linearised)
    if estimates is not None and (estimates.solution_error is not None or estimates.freedom <= 0):
        checks.append(_coefficients(estimates, tolerance))
    elif estimates is not None:
        missing[_COEFFICIENTS] = estimates.remark
    small = _too_small(problem, u(fresh), tolerance)
    missing |= small
    unseen = [f"{name} is not judged by itself, since {why}" for name, why in small.items()]
    if len(problem.domain) == 1 and reason:
        unseen.append(f"its errors were not followed, since {reason}")
    elif reason and problem.order(problem.time):
        unseen.append("whether small errors grow was not looked at")
    verdict = _verdict(checks, missing, unseen)
    return Trust(all(one.passed for one in checks), verdict, checks, missing, error, tolerance)


def _too_small(problem: Problem, values: Tensor, tolerance: float) -> dict[str, str]:
    """Unknowns that may be wrong altogether without much of an error in all of them, and why."""
    sizes = values.detach().abs().amax(0).tolist()
    largest, size = max(zip(problem.unknowns, sizes, strict=True), key=lambda one: one[1])
    return {
        name: f"it is {one / size:.1g} times as large as {largest}"
        for name, one in zip(problem.unknowns, sizes, strict=True)
        if one < tolerance * size
    }


def _verdict(checks: list[Check], missing: dict[str, str], unseen: list[str]) -> str:
    failed = sorted((one for one in checks if not one.passed), key=lambda one: one.name not in _TELLING)
    if failed:
        return f"Do not trust it: {'; '.join(one.said for one in failed[:_REASONS])}."
    estimates = [one for one in checks if one.estimates]
    if _COEFFICIENTS in missing:
        found = "; ".join(one.said for one in estimates) or "all checks are passed"
        return f"Trust it no further than its coefficients, whose errors are not known: {found}."
    if not estimates:
        found = ["all checks are passed, but none of them estimates the error", *unseen]
        return f"Trust it as far as its residual goes: {'; '.join(found)}."
    worst = max(estimates, key=lambda one: one.value)
    return f"Trust it to about {worst.value:.1g} of its size: {'; '.join([*(one.said for one in estimates), *unseen])}."


def _squares(problem: Problem, u: Function, points: Tensor, units: Units) -> Tensor:
    with torch.no_grad():
        return (problem.residual(problem.derivatives(u, points)) / units.residual(points)).square().mean(1)


def _residuals(
    problem: Problem,
    u: Function,
    trained_at: Tensor | None,
    tolerance: float,
    limit: float | None,
    fresh: Tensor,
    units: Units,
) -> Iterator[Check]:
    squares = _squares(problem, u, fresh, units)
    size = squares.mean().sqrt().item()
    yield Check("residual on fresh points", size, limit, f"the residual on fresh points is {size:.2g}")
    peak = max(_refined_peak(problem, u, fresh, squares, units), squares.max().sqrt().item())
    if trained_at is None:
        yield Check("largest residual", peak, None, f"the largest residual is {peak:.2g}")
        return
    before = _squares(problem, u, trained_at, units)
    ratio = size / max(before.mean().sqrt().item(), 1e-300)
    few = f"the residual on fresh points is {ratio:.2g} times that on the training's points, which are too few"
    yield Check("fresh over training residual", ratio, _OVERFITTED if size > tolerance / 10 else None, few)
    hidden = peak / max(before.max().sqrt().item(), 1e-300)
    between = f"between the training's points the residual reaches {peak:.2g}, {hidden:.2g} times what they show"
    yield Check("largest residual, refined", hidden, _HIDDEN if peak > 100 * tolerance else None, between)


def _places(problem: Problem, seed: int) -> Tensor:
    """Evenly spread points of the domain, those of its region alone."""
    return places(problem, max(1, min(_FRESH, _FRESH_NUMBERS // len(problem.domain))), seed)


def _refined_peak(problem: Problem, u: Function, fresh: Tensor, squares: Tensor, units: Units) -> float:
    """The largest residual near the largest ones on fresh points."""
    top = fresh[squares.topk(min(_PEAKS, len(fresh))).indices]
    ends = torch.tensor(list(problem.domain.values()), dtype=fresh.dtype)
    reach = (ends[:, 1] - ends[:, 0]) * _FRESH ** (-1 / len(ends))
    shifts = torch.quasirandom.SobolEngine(len(ends), scramble=True, seed=1).draw(_AROUND, dtype=fresh.dtype) - 0.5
    near = (top[:, None] + shifts * (2 * reach)).flatten(0, 1)
    near = near.maximum(fresh.amin(0)).minimum(fresh.amax(0))  # coefficients may be infinite at an end
    near = near if problem.region is None else near[problem.contains(near)]
    return _squares(problem, u, near, units).max().sqrt().item()


def _conditions(problem: Problem, u: Function, limit: float | None, units: Units) -> Iterator[Check]:
    with torch.no_grad():
        if problem.initial is not None:
            start = on_face(problem, {problem.time: problem.domain[problem.time][0]})
            off = _root_mean_square((u(start) - problem.initial_values(start)) / units.size(start))
            yield Check("initial value", off, limit, f"the initial value is off by {off:.2g}")
        if problem.boundary is not None:
            edge = on_boundary(problem)
            off = _root_mean_square((u(edge) - problem.boundary_values(edge)) / units.size(edge))
            yield Check("boundary", off, limit, f"the values on the boundary are off by {off:.2g}")
        for one in problem.conditions:
            face = on_face(problem, one.where)
            off = _root_mean_square(problem.violation(one, u, face) / units.condition(one, face))
            yield Check(one.name, off, limit, f"{one.name!r} is off by {off:.2g}")


def _zero(u: Function, fresh: Tensor) -> Check:
    """Whether an eigenfunction, of which any other multiple is one, is 0 everywhere."""
    with torch.no_grad():
        zero = not u(fresh).any()
    return Check("zero", float(zero), 0.0, "it is 0 everywhere, which is no eigenfunction")


def _root_mean_square(off: Tensor) -> float:
    return off.square().mean().sqrt().item()


def _difference(problem: Problem, u: Function, second: Function, tolerance: float) -> Check:
    points = _places(problem, 10_011)
    with torch.no_grad():
        one, other = u(points), second(points)
    if problem.eigenvalue is not None:  # of which any multiple is a solution
        other = other * ((one * other).sum() / other.square().sum().clamp_min(1e-300))
    off = ((one - other).norm() / one.norm().clamp_min(1e-300)).item()
    return Check("second solution", off, tolerance, f"a second solution differs by {off:.2g}", estimates=True)


def _invariant(problem: Problem, u: Function, name: str, one: Invariant, tolerance: float) -> Check:
    """By how much a conserved quantity moves, or a decaying one grows, relative to the integral of its size."""
    counts = [_TIMES if coordinate == problem.time else _SPACE for coordinate in problem.domain]
    points = problem.grid(*counts)
    with torch.no_grad():
        names = tuple({*problem.derivatives_needed, problem.space[0]})
        density = one.density(problem.derivatives(u, points, names), **problem.coefficients)
    values = density.view(*counts).double()
    values = values if problem.coordinates[0] == problem.time else values.T  # (times, places)
    integral, size = values.mean(1), values.abs().mean(1).max().clamp_min(1e-300)
    if one.kind == "conserved":
        off = ((integral - integral[0]).abs().max() / size).item()
        return Check(name, off, tolerance, f"its {name}, which is conserved, changes by {off:.2g}")
    off = ((integral - integral.cummin(0).values).max() / size).item()
    return Check(name, off, tolerance, f"its {name}, which never grows, grows by {off:.2g}")


def _coefficients(found: Estimates, tolerance: float) -> Check:
    off = found.solution_error
    if off is None:
        return Check(_COEFFICIENTS, float("inf"), tolerance, found.remark)
    said = f"by the errors of its coefficients it is off by {off:.2g}"
    return Check(_COEFFICIENTS, off, tolerance, said, estimates=True)


def _linearised(
    problem: Problem, u: Function, tolerance: float, fresh: Tensor
) -> tuple[Check | None, np.ndarray | None, str]:
    """The error to first order as a check and on its grid, or why there is none."""
    if len(problem.domain) == 1:
        return _ordinary(problem, u, tolerance, fresh)
    if reason := why_not(problem):
        return None, None, reason
    found = LinearisedProblem(problem, u)
    try:
        error = found.error()
    except np.linalg.LinAlgError as singular:
        return None, None, str(singular)
    return _of_error(error, found.values, tolerance), error, ""


def _ordinary(
    problem: Problem, u: Function, tolerance: float, fresh: Tensor
) -> tuple[Check | None, np.ndarray | None, str]:
    if reason := why_not_ordinary(problem):
        return None, None, reason
    with torch.no_grad():
        residual = _root_mean_square(problem.residual(problem.derivatives(u, fresh)))
    try:
        found = LinearisedOrdinary(problem, u)
        error = found.error()
    except np.linalg.LinAlgError as singular:
        return None, None, str(singular)
    check = _of_error(error, found.values, tolerance)
    if not check.passed:
        return check, error, ""
    if residual > _UNRESOLVED * np.sqrt(np.square(found.residual).mean()):
        return None, None, "its residual is too narrow for the grid"
    if not found.is_determined():
        return None, None, "its conditions hardly determine it"
    if not found.is_linear():
        said = "its residual leaves an error over which its equation is not linear"
        return Check(_LINEARISED, float("inf"), tolerance, said), None, ""
    return check, error, ""


def _of_error(error: np.ndarray, values: np.ndarray, tolerance: float) -> Check:
    finite = np.isfinite(error).all()
    off = float(np.linalg.norm(error) / max(np.linalg.norm(values), 1e-300)) if finite else float("inf")
    said = f"by its residual and the linearised equation it is off by {off:.2g}"
    return Check(_LINEARISED, off, tolerance, said, estimates=True)
