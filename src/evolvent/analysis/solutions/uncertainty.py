"""How well the coefficients of an equation are known from samples of its solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from evolvent.analysis.solutions.linearised import LinearisedProblem, why_not
from evolvent.equations.problems import Problem

_UNKNOWN = 1.0  # relative standard error of a direction from which the samples say nothing of it
_SINGULAR = 1e-10  # smallest over largest information from which a direction is not seen at all
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
        noise: standard deviation of the samples about the solution.
        condition: ratio of the largest and the smallest information on relative changes of the coefficients.
        not_identified: changes of the coefficients that the samples do not see, in words.
        remark: why there are no standard errors; empty if there are.
        covariance: of the coefficients, in the order of ``found``; None where it could not be computed or is infinite.
    """

    found: list[Estimate]
    noise: float
    condition: float | None = None
    not_identified: list[str] = field(default_factory=list)
    remark: str = ""
    covariance: list[list[float]] | None = None

    def __getitem__(self, name: str) -> Estimate:
        return {one.name: one for one in self.found}[name]


def estimate_coefficients(
    problem: Problem, u: Callable[[Tensor], Tensor], names: Sequence[str], points: Tensor, values: Tensor
) -> Estimates:
    r"""Standard errors of coefficients by the Gauss-Newton covariance, with the equation as a constraint.

    Samples :math:`d_i = u(x_i; c) + \varepsilon_i` tell of c by the sensitivities :math:`J_{ik} = \partial u(x_i) /
    \partial c_k`, and :math:`\mathrm{Cov}(c) = \sigma^2 (J^\top J)^{-1}`, :math:`\sigma^2 = \sum_i (d_i - u(x_i))^2 /
    (n - k)`. The sensitivities solve the linearised equation with the source :math:`-\partial R / \partial c_k`, from
    the same initial value and conditions. So the weights of the network are eliminated: whatever c is, u is taken to
    solve the equation. What the network leaves of the residual is not in the standard errors, and neither are
    systematic errors of the samples.

    A direction of relative changes of c whose standard error is above one, or that the samples do not see at all, is
    named in :attr:`Estimates.not_identified`.

    Args:
        problem: with the coefficients that were found.
        u: its solution.
        names: of the coefficients.
        points, values: the samples, (N, coordinates) and (N, unknowns).
    """
    with torch.no_grad():
        off = (u(points) - values).double()
    count = off.numel()
    noise = math.sqrt(off.square().sum().item() / max(1, count - len(names)))
    now = [problem.coefficients[name] for name in names]
    if reason := why_not(problem):
        found = [Estimate(name, value, None) for name, value in zip(names, now, strict=True)]
        return Estimates(found, noise, remark=f"no standard errors: {reason}")
    lin = LinearisedProblem(problem, u, coefficients=tuple(names))
    jacobian = _at_samples(lin, lin.sensitivities(), points)
    shapes = {name for one in problem.fields.values() for name in one.shape_names}  # in units of one, whatever they are
    sizes = np.array([1.0 if name in shapes else abs(value) or 1.0 for name, value in zip(names, now, strict=True)])
    return _from_information(names, now, jacobian * sizes, sizes, noise)


def _from_information(
    names: Sequence[str], now: Sequence[float], relative: np.ndarray, sizes: np.ndarray, noise: float
) -> Estimates:
    """``relative`` are changes of the samples with relative changes of the coefficients, (samples, coefficients)."""
    information, directions = np.linalg.eigh(relative.T @ relative)
    largest = max(float(information[-1]), 1e-300)
    spread = np.array(
        [noise / math.sqrt(one) if one > _SINGULAR * largest else math.inf for one in information.tolist()]
    )
    blind = [k for k in range(len(names)) if spread[k] > _UNKNOWN]
    found = []
    for i, (name, value) in enumerate(zip(names, now, strict=True)):
        shares = directions[i] ** 2
        seen = shares > 1e-12
        error = math.sqrt(float((shares[seen] * spread[seen] ** 2).sum())) * float(sizes[i])
        found.append(Estimate(name, value, error))
    condition = largest / max(float(information[0]), 1e-300)
    covariance = None
    if np.isfinite(spread).all():
        scaled = sizes[:, None] * directions * spread
        covariance = (scaled @ scaled.T).tolist()
    said = [_named(names, directions[:, k], spread[k]) for k in blind]
    return Estimates(found, noise, condition, said, covariance=covariance)


def _named(names: Sequence[str], direction: np.ndarray, spread: float) -> str:
    """A direction in words, such as ``diffusion up with speed down in proportion 1 : 1``."""
    lead = int(np.abs(direction).argmax())
    scaled = direction / direction[lead]
    parts = [k for k in np.argsort(-np.abs(scaled)) if abs(scaled[k]) > _PART]
    known = "not at all" if math.isinf(spread) else f"to {spread:.2g} of their size only"
    if len(parts) == 1:
        return f"{names[parts[0]]} is known {known.replace('their', 'its')}"
    moves = [f"{names[k]} {'up' if scaled[k] > 0 else 'down'}" for k in parts]
    ratio = " : ".join(f"{abs(scaled[k]):.2g}" for k in parts)
    return f"{' with '.join(moves)} (relative changes {ratio}) is known {known}"


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
