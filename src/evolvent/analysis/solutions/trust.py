"""Whether to trust a solution that there is no reference for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from evolvent.analysis.solutions.linearised import LinearisedProblem, why_not
from evolvent.analysis.solutions.uncertainty import Estimates
from evolvent.data import CollocationPoints
from evolvent.equations.problems import MANY, Condition, Invariant, Problem

TOLERANCE = 0.01
"""Relative error up to which a solution is trusted unless another is asked for."""

_FRESH = 4096  # points where the residual is looked at anew
_FRESH_NUMBERS = 2**19  # coordinates of all of them at most, so that very many dimensions do not take minutes
_STARTS = (0.125, 0.375, 0.625, 0.875)  # of the time, when errors begin whose residual is the unit
_PEAKS, _AROUND = 16, 64  # largest residuals around which more points are drawn, and how many
_OVERFITTED = 3.0  # residual on fresh points over that on the training points
_HIDDEN = 30.0  # largest residual found by refining over the largest on the training points
_SPACE, _TIMES = 401, 41  # grid of invariants
_COEFFICIENTS = "coefficients"
# come first in a verdict
_TELLING = (_COEFFICIENTS, "second solution", "fresh over training residual", "linearised error")
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
        error: the error to first order on a grid, (places, times, unknowns); None if it was not computed.
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
      more elsewhere. It is measured in units of what an error as large as the solution leaves.
    - The largest residual found by drawing more points where it is large.
    - The violation of the initial value, of the values on the boundary and of each condition, relative to the size of
      the solution.
    - A second solution from another seed: two wrong ones are seldom wrong in the same way.
    - Quantities that are conserved or decay.
    - The error to first order, from the linearised equation with the residual as its source
      (:class:`~evolvent.analysis.solutions.LinearisedProblem`): a small residual may still mean a large error where the
      equation lets errors grow.
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
    checks = [*_residuals(problem, u, trained_at, tolerance, seed), *_conditions(problem, u, tolerance)]
    missing: dict[str, str] = {}
    if second is None:
        missing["second solution"] = "there is none"
    else:
        checks.append(_difference(problem, u, second, tolerance))
    if problem.time in problem.domain and len(problem.space) == 1:
        checks += [_invariant(problem, u, name, one, tolerance) for name, one in problem.invariants.items()]
    reason, error = why_not(problem), None
    if not reason:
        try:
            check, error = _linearised(problem, u, tolerance)
            checks.append(check)
        except np.linalg.LinAlgError as singular:
            reason = str(singular)
    if reason:
        missing["linearised error"] = reason
    if estimates is not None and (estimates.solution_error is not None or estimates.freedom <= 0):
        checks.append(_coefficients(estimates, tolerance))
    elif estimates is not None:
        missing[_COEFFICIENTS] = estimates.remark
    return Trust(all(one.passed for one in checks), _verdict(checks, missing), checks, missing, error, tolerance)


def _verdict(checks: list[Check], missing: dict[str, str]) -> str:
    failed = sorted((one for one in checks if not one.passed), key=lambda one: one.name not in _TELLING)
    if failed:
        return f"Do not trust it: {'; '.join(one.said for one in failed[:_REASONS])}."
    estimates = [one for one in checks if one.estimates]
    if _COEFFICIENTS in missing:
        found = "; ".join(one.said for one in estimates) or "all checks are passed"
        return f"Trust it no further than its coefficients, whose errors are not known: {found}."
    if not estimates:
        return "Trust it as far as its residual goes: all checks are passed, but none of them estimates the error."
    worst = max(estimates, key=lambda one: one.value)
    return f"Trust it to about {worst.value:.1g} of its size: {'; '.join(one.said for one in estimates)}."


def _squares(problem: Problem, u: Function, points: Tensor) -> Tensor:
    with torch.no_grad():
        return problem.residual(problem.derivatives(u, points)).square().mean(1)


def _residuals(
    problem: Problem, u: Function, trained_at: Tensor | None, tolerance: float, seed: int
) -> Iterator[Check]:
    fresh = _places(problem, 10_007 + seed)
    unit = _unit(problem, u, fresh)
    squares = _squares(problem, u, fresh) / unit**2
    size = squares.mean().sqrt().item()
    yield Check("residual on fresh points", size, 10 * tolerance, f"the residual on fresh points is {size:.2g}")
    peak = max(_refined_peak(problem, u, fresh, squares) / unit, squares.max().sqrt().item())
    if trained_at is None:
        yield Check("largest residual", peak, None, f"the largest residual is {peak:.2g}")
        return
    before = _squares(problem, u, trained_at) / unit**2
    ratio = size / max(before.mean().sqrt().item(), 1e-300)
    few = f"the residual on fresh points is {ratio:.2g} times that on the training's points, which are too few"
    yield Check("fresh over training residual", ratio, _OVERFITTED if size > tolerance / 10 else None, few)
    hidden = peak / max(before.max().sqrt().item(), 1e-300)
    between = f"between the training's points the residual reaches {peak:.2g}, {hidden:.2g} times what they show"
    yield Check("largest residual, refined", hidden, _HIDDEN if peak > 100 * tolerance else None, between)


def _places(problem: Problem, seed: int) -> Tensor:
    """Evenly spread points of the domain, those of its region alone."""
    count = max(1, min(_FRESH, _FRESH_NUMBERS // len(problem.domain)))
    if problem.region is None:
        return problem.sobol(count, seed=seed)
    return CollocationPoints(problem, count).draw(count, seed, 0)


def _unit(problem: Problem, u: Function, points: Tensor) -> float:
    """The residual of an error as large as the solution, whatever units its equation is written in.

    With time it is an error that grows from nothing to that size within the whole of it. For a steady solution it is
    the longest wave that vanishes on the boundary; shorter ones leave more, so that a residual in this unit is an error
    that is seldom exceeded. The residual of an eigenfunction, of which any multiple is one, is compared with one of its
    two terms.
    """
    if problem.eigenvalue is not None:
        with torch.no_grad():
            return (problem.eigenvalue * u(points).square().mean().sqrt() / problem.scale).item()
    if problem.order(problem.time):
        low, high = problem.domain[problem.time]
        starts = [low + share * (high - low) for share in _STARTS]
        found = [_grown(problem, u, points[: _FRESH // 32], start) for start in starts]
        return max(math.hypot(*found) / len(found) ** 0.5, 1e-300)
    if len(problem.space) > MANY:
        return 1.0
    with torch.no_grad():
        share = u(points).square().mean().sqrt() / problem.inside(points).square().mean().sqrt().clamp_min(1e-300)
    return max(_left(problem, u, lambda x: share.to(x.dtype) * problem.inside(x), points), 1e-300)


def _grown(problem: Problem, u: Function, points: Tensor, start: float) -> float:
    """The residual at a time of an error that begins there and would become as large as the solution."""
    column, size, points = problem.coordinates.index(problem.time), _size(problem, u, points), points.clone()
    points[:, column] = start
    return _left(
        problem, u, lambda x: size * torch.expm1((x[:, column : column + 1] - start) / problem.duration), points
    )


def _left(problem: Problem, u: Function, error: Function, points: Tensor) -> float:
    """How much an error changes the residual, in the mean."""
    with torch.no_grad():
        off = problem.residual(problem.derivatives(lambda x: u(x) + error(x), points))
        return (off - problem.residual(problem.derivatives(u, points))).square().mean().sqrt().item()


def _size(problem: Problem, u: Function, points: Tensor) -> float:
    """That of the problem if it is stated, else the largest value of the solution."""
    if problem.size is not None:
        return problem.size
    with torch.no_grad():
        return u(points).abs().max().item()


def _refined_peak(problem: Problem, u: Function, fresh: Tensor, squares: Tensor) -> float:
    """The largest residual near the largest ones on fresh points."""
    top = fresh[squares.topk(min(_PEAKS, len(fresh))).indices]
    ends = torch.tensor(list(problem.domain.values()), dtype=fresh.dtype)
    reach = (ends[:, 1] - ends[:, 0]) * _FRESH ** (-1 / len(ends))
    shifts = torch.quasirandom.SobolEngine(len(ends), scramble=True, seed=1).draw(_AROUND, dtype=fresh.dtype) - 0.5
    near = (top[:, None] + shifts * (2 * reach)).flatten(0, 1)
    near = near.maximum(ends[:, 0]).minimum(ends[:, 1])
    near = near if problem.region is None else near[problem.contains(near)]
    return _squares(problem, u, near).max().sqrt().item()


def _conditions(problem: Problem, u: Function, tolerance: float) -> Iterator[Check]:
    points = problem.sobol(_FRESH // 4, seed=10_009)

    def on_face(where: dict[str, float]) -> Tensor:
        face = points.clone()
        for name, value in where.items():
            face[:, problem.coordinates.index(name)] = value
        return face

    with torch.no_grad():
        if problem.initial is not None:
            start = on_face({problem.time: problem.domain[problem.time][0]})
            off = _relative(u(start) - problem.initial_values(start), problem.scale)
            yield Check("initial value", off, tolerance, f"the initial value is off by {off:.2g}")
        if problem.boundary is not None:
            numbers = torch.quasirandom.SobolEngine(len(problem.domain), scramble=True, seed=10_013)
            edge = problem.on_boundary(numbers.draw(_FRESH // 4, dtype=torch.float64))
            off = _relative(u(edge) - problem.boundary_values(edge), problem.scale)
            yield Check("boundary", off, tolerance, f"the values on the boundary are off by {off:.2g}")
        for one in problem.conditions:
            off = _violation(problem, u, one, on_face(dict(one.where)))
            yield Check(one.name, off, tolerance, f"{one.name!r} is off by {off:.2g}")


def _violation(problem: Problem, u: Function, condition: Condition, points: Tensor) -> float:
    """What is off of a condition, relative to what an error as large as the solution leaves there.

    Errors are waves of two phases, as long as the domain is in each coordinate.
    """
    size = max(_size(problem, u, points), _size(problem, u, problem.sobol(len(points), seed=10_015)))

    def left(error: Function) -> Tensor:
        return condition.violation(problem.derivatives(lambda x: u(x) + size * error(x), points))

    def phase(x: Tensor) -> Tensor:
        ends = enumerate(problem.domain.values())
        return torch.cat([(2 * x[:, i : i + 1] - low - high) / (high - low) for i, (low, high) in ends], 1).sum(1, True)

    off = left(lambda x: torch.zeros_like(x[:, :1]))
    waves = [left(lambda x, wave=wave: wave(phase(x))) - off for wave in (torch.sin, torch.cos)]
    return _relative(off, max(torch.stack(waves).square().sum(0).mean().sqrt().item(), 1e-300))


def _relative(off: Tensor, scale: float) -> float:
    return off.square().mean().sqrt().item() / scale


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


def _linearised(problem: Problem, u: Function, tolerance: float) -> tuple[Check, np.ndarray]:
    found = LinearisedProblem(problem, u)
    error = found.error()
    finite = np.isfinite(error).all()
    off = float(np.linalg.norm(error) / max(np.linalg.norm(found.values), 1e-300)) if finite else float("inf")
    said = f"by its residual and the linearised equation it is off by {off:.2g}"
    return Check("linearised error", off, tolerance, said, estimates=True), error
