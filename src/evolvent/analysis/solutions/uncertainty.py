"""How well the coefficients of an equation are known from samples of its solution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from evolvent.analysis.solutions.linearised import LinearisedProblem, why_not
from evolvent.analysis.solutions.tangent import Function, TangentProblem
from evolvent.data import CollocationPoints
from evolvent.equations.problems import Problem

_UNKNOWN = 1.0  # relative standard error of a direction from which the samples say nothing of it
_SINGULAR = 1e-10  # smallest over largest information from which a direction is not seen at all
_PLACES = 512  # random points that stand for the domain
_PART = 0.1  # of a direction, below which a coefficient is not named


@dataclass(frozen=True)
class Estimate:
    """A coefficient with its standard error; None where that could not be computed, infinite where nothing is known."""

    name: str
    value: float
    error: float | None

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.6g}" + ("" if self.error is None else f" ± {self.error:.2g}")


@dataclass(frozen=True)
class Estimates:
    """Coefficients that were found, and what the samples do not tell.

    Attributes:
        found: each coefficient.
        noise: standard deviation of the samples about the exact solution; None if they are too few to estimate it.
        condition: ratio of the largest and the smallest information on relative changes of the coefficients.
        not_identified: changes of the coefficients that the samples do not see, in words.
        remark: why there are no standard errors; empty if there are.
        covariance: of the coefficients, in the order of ``found``; None where it could not be computed or is infinite.
        freedom: measured numbers less coefficients; without any left the noise cannot be estimated.
        solution_error: relative error of the solution that comes of the coefficients; None without standard errors.
    """

    found: list[Estimate]
    noise: float | None
    condition: float | None = None
    not_identified: list[str] = field(default_factory=list)
    remark: str = ""
    covariance: list[list[float]] | None = None
    freedom: int = 0
    solution_error: float | None = None

    def __getitem__(self, name: str) -> Estimate:
        return {one.name: one for one in self.found}[name]


def estimate_coefficients(
    problem: Problem,
    u: Function,
    names: Sequence[str],
    points: Tensor,
    values: Tensor,
    tangent: TangentProblem | None = None,
) -> Estimates:
    r"""Standard errors of coefficients by the Gauss-Newton covariance, with the equation as a constraint.

    Samples :math:`d_i = u(x_i; c) + \varepsilon_i` tell of c by the sensitivities :math:`J_{ik} = \partial u(x_i) /
    \partial c_k`, which solve the linearised equation with the source :math:`-\partial R / \partial c_k`, from the same
    initial value and conditions. A network with many weights also follows the noise, so that what it leaves of the
    samples is too small. Its error e to first order is taken off: u + e is the exact solution with these c, has no
    freedom but c, and leaves :math:`r_i = d_i - u(x_i) - e(x_i)`. With :math:`\delta = (J^\top J)^{-1} J^\top r`, by
    which c misses the best fit of exact solutions,

    .. math:: \mathrm{Cov}(c) = \sigma^2 (J^\top J)^{-1} + \delta \delta^\top, \qquad
       \sigma^2 = \frac{|r - J \delta|^2}{n - k}.

    Systematic errors of the samples are not in it. With no more samples than coefficients there are no standard
    errors: they could be fitted whatever their noise.

    A direction of relative changes of c whose standard error is above one, or that the samples do not see at all, is
    named in :attr:`Estimates.not_identified`.

    Args:
        problem: with the coefficients that were found.
        u: its solution.
        names: of the coefficients.
        points, values: the samples, (N, coordinates) and (N, unknowns).
        tangent: the changes that the network of u can follow, where the linearised equation is not solved on a grid: in
            more coordinates, or without time. The error of u that it tells is part of ``solution_error``.
    """
    now = [problem.coefficients[name] for name in names]
    measured = ~values.isnan().flatten().numpy()  # a component that was not measured is NaN
    with torch.no_grad():
        off = (values - u(points)).double().flatten().numpy()[measured]
    freedom = len(off) - len(names)
    noise = math.sqrt(float(off @ off) / freedom) if freedom > 0 else None
    if reason := _too_few(len(off), len(names)) or _why_not(problem, tangent):
        return _without_errors(names, now, noise, freedom, reason)
    try:
        found = _along(tangent, names, points) if why_not(problem) and tangent else _on_grid(problem, u, names, points)
    except np.linalg.LinAlgError as singular:
        return _without_errors(names, now, noise, freedom, str(singular))
    left = off - found.error[measured]
    shapes = {name for one in problem.fields.values() for name in one.shape_names}  # in units of one, whatever they are
    sizes = np.array([1.0 if name in shapes else abs(value) or 1.0 for name, value in zip(names, now, strict=True)])
    relative = found.sensitivities[measured] * sizes
    known = _Information(relative, left)
    errors = [known.error(i) * float(size) for i, size in enumerate(sizes)]
    return Estimates(
        [Estimate(*one) for one in zip(names, now, errors, strict=True)],
        known.noise,
        known.condition,
        [_named(names, direction, spread) for direction, spread in known.blind()],
        covariance=known.covariance(sizes),
        freedom=freedom,
        solution_error=math.hypot(known.seen_in(found.everywhere * sizes), found.own),
    )


def _without_errors(
    names: Sequence[str], now: Sequence[float], noise: float | None, freedom: int, reason: str
) -> Estimates:
    found = [Estimate(name, value, None) for name, value in zip(names, now, strict=True)]
    return Estimates(found, noise, remark=f"no standard errors: {reason}", freedom=freedom)


def _too_few(count: int, coefficients: int) -> str:
    if count > coefficients:
        return ""
    return f"with {coefficients} unknown and only {count} measured, the noise of the samples cannot be estimated"


class _Information:
    """What samples tell of relative changes of coefficients.

    Args:
        relative: changes of the samples with relative changes of the coefficients, (samples, coefficients).
        left: of the samples by the exact solution.
    """

    def __init__(self, relative: np.ndarray, left: np.ndarray) -> None:
        information, self.directions = np.linalg.eigh(relative.T @ relative)
        largest = max(float(information[-1]), 1e-300)
        self.condition = largest / max(float(information[0]), 1e-300)
        seen = information > _SINGULAR * largest
        basis = self.directions[:, seen] / np.sqrt(information[seen])  # changes of unit effect on the samples
        effects = relative @ basis
        self._off = basis @ (effects.T @ left)
        rest = left - effects @ (effects.T @ left)
        self.noise = math.sqrt(float(rest @ rest) / (len(left) - relative.shape[1]))
        self._known = np.column_stack([self.noise * basis, self._off])  # whose square is the covariance
        self._spread = np.full(len(information), math.inf)
        self._spread[seen] = np.hypot(self.noise / np.sqrt(information[seen]), self.directions[:, seen].T @ self._off)

    def error(self, number: int) -> float:
        """Relative standard error of a coefficient."""
        unseen = np.isinf(self._spread)
        if (self.directions[number, unseen] ** 2 > 1e-12).any():
            return math.inf
        return float(np.linalg.norm(self._known[number]))

    def covariance(self, sizes: np.ndarray) -> list[list[float]] | None:
        scaled = sizes[:, None] * self._known
        return (scaled @ scaled.T).tolist() if np.isfinite(self._spread).all() else None

    def blind(self) -> list[tuple[np.ndarray, float]]:
        """Directions of which little is known, with their standard errors."""
        return [(self.directions[:, k], s) for k, s in enumerate(self._spread.tolist()) if s > _UNKNOWN]

    def seen_in(self, relative: np.ndarray) -> float:
        """Size of the changes of something else, (..., coefficients), of what the samples see."""
        return float(np.linalg.norm(relative @ self._known))


def _named(names: Sequence[str], direction: np.ndarray, spread: float) -> str:
    """A direction in words, such as ``diffusion up with speed down in proportion 1 : 1``."""
    lead = int(np.abs(direction).argmax())
    scaled = direction / direction[lead]
    parts = [k for k in np.argsort(-np.abs(scaled)) if abs(scaled[k]) > _PART]
    known = "not determined at all" if math.isinf(spread) else f"known only to {spread:.2g} of their size"
    if len(parts) == 1:
        return f"{names[parts[0]]} is {known.replace('their', 'its')}"
    moves = [f"{names[k]} {'up' if scaled[k] > 0 else 'down'}" for k in parts]
    ratio = " : ".join(f"{abs(scaled[k]):.2g}" for k in parts)
    return f"{' with '.join(moves)} (relative changes {ratio}) is {known}"


class _Changes(NamedTuple):
    """Small changes of a solution: at samples, (samples x unknowns,), with coefficients (..., k), and elsewhere.

    ``everywhere`` and ``own``, the error of u that no other check knows, are relative to the norm of u.
    """

    error: np.ndarray
    sensitivities: np.ndarray
    everywhere: np.ndarray
    own: float


def _on_grid(problem: Problem, u: Function, names: Sequence[str], points: Tensor) -> _Changes:
    lin = LinearisedProblem(problem, u, coefficients=tuple(names))
    sensitivities, error = lin.sensitivities(), lin.error()
    size = max(float(np.linalg.norm(lin.values)), 1e-300)
    at = [_at_samples(lin, found, points) for found in (error[..., None], sensitivities)]
    return _Changes(at[0][:, 0], at[1], sensitivities / size, 0.0)


def _along(tangent: TangentProblem, names: Sequence[str], points: Tensor) -> _Changes:
    changes = tangent.changes(names)
    joined = torch.cat([changes.error[:, None], changes.sensitivities], dim=1)
    places = CollocationPoints(tangent.problem, _PLACES).draw(_PLACES, 10_037, 0)
    with torch.no_grad():
        size = max(float(tangent.solution(tangent.network, places).norm()), 1e-300)
    at, everywhere = (tangent.followed(joined, x.to(joined)).flatten(0, 1).numpy() for x in (points, places))
    own = float(np.linalg.norm(everywhere[:, 0])) / size
    return _Changes(at[:, 0], at[:, 1:], everywhere[:, 1:] / size, own)


def _why_not(problem: Problem, tangent: TangentProblem | None) -> str:
    reason = why_not(problem)
    return reason if tangent is None or not reason else tangent.why_not()


def _at_samples(lin: LinearisedProblem, found: np.ndarray, points: Tensor) -> np.ndarray:
    """Sensitivities at the samples, by linear interpolation, (samples x unknowns, coefficients)."""
    from scipy.interpolate import RegularGridInterpolator

    axes = [lin.points[:, 0].numpy(), lin.points[0].numpy()]
    x_of, t_of = lin.problem.coordinates.index(lin.space), lin.problem.coordinates.index(lin.problem.time)
    x, t = axes[0][:, x_of], axes[1][:, t_of]
    if lin.periodic:
        x, found = np.append(x, lin.problem.domain[lin.space][1]), np.concatenate([found, found[:1]])
    at = points.double().numpy()[:, [x_of, t_of]]
    values = RegularGridInterpolator((x, t), found, method="linear")(at)  # (N, unknowns, coefficients)
    return values.reshape(-1, found.shape[-1])
