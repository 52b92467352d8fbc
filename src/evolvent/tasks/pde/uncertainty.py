"""How far the coefficients of an equation that was found from noisy samples may be off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from evolvent.equations import parameter_jacobian

if TYPE_CHECKING:
    from evolvent.tasks.pde.discovery import Discovery
    from evolvent.tasks.pde.task import Pde

_FLOOR = 1e-10  # of singular values; what the data leave open is held by this


def student_factor(share: float, freedom: float) -> float:
    """Standard errors within which a share of values lies whose noise was estimated from so many free numbers.

    >>> round(student_factor(0.95, 3), 2), round(student_factor(0.95, 1000), 2)
    (3.18, 1.96)
    """
    from scipy.stats import t

    return float(t.ppf((1 + share) / 2, freedom))


@dataclass(frozen=True)
class Uncertainty:
    """What is known of m coefficients that were fitted together with a network.

    Attributes:
        covariance: of the coefficients, (m, m).
        inverse: their part of the inverse of the normal matrix of the fit, (m, m): how coefficients answer to each
            other.
        noise: standard deviation of the noise of weighted samples.
        freedom: how many of the samples the fit uses up.
        left: how many of the samples tell the noise.
    """

    covariance: Tensor
    inverse: Tensor
    noise: float
    freedom: float
    left: float = math.inf

    @property
    def errors(self) -> Tensor:
        """Standard errors, (m,)."""
        return self.covariance.diagonal().clamp_min(0).sqrt()

    def within(self, share: float) -> float:
        """Standard errors within which a share of coefficients lies: Student's factor, for the noise is estimated."""
        return student_factor(share, self.left)

    def without(self, number: int, alpha: Tensor) -> tuple[Tensor, Uncertainty]:
        """Coefficients and what is known of them if one of them is held at 0."""
        answer = self.inverse[:, number] / self.inverse[number, number]
        keep = torch.eye(len(alpha), dtype=alpha.dtype, device=alpha.device)
        keep[:, number] -= answer
        left = replace(self, covariance=keep @ self.covariance @ keep.T, inverse=keep @ self.inverse)
        return keep @ alpha, left

    def significant(self, alpha: Tensor, least: float) -> list[int]:
        """Numbers of the coefficients that are left if one after the other is left out.

        Always the one of the fewest standard errors goes, as long as these are fewer than ``least``; the others are
        fitted anew each time. One is always left.
        """
        kept, known = list(range(len(alpha))), self
        while len(kept) > 1:
            sizes = {k: (alpha[k].abs() / known.errors[k]).item() for k in kept}
            k = min(sizes, key=sizes.__getitem__)
            if not sizes[k] < least:
                break
            alpha, known = known.without(k, alpha)
            kept.remove(k)
        return kept


def gauss_newton_uncertainty(values: Tensor, slopes: Tensor, columns: Tensor, off: Tensor) -> Uncertainty:
    r"""What noise of samples does to coefficients :math:`\alpha` that are fitted together with a network.

    Weights of the network and coefficients minimise :math:`|a(\theta) - y|^2 + |g(\theta, \alpha)|^2`. With
    :math:`A = \partial a / \partial (\theta, \alpha)`, :math:`G` likewise and :math:`M = A^\top A + G^\top G`, noise
    :math:`\varepsilon` of the samples moves the minimum by :math:`M^{-1} A^\top \varepsilon`, so that

    .. math:: \operatorname{cov} = \sigma^2 M^{-1} A^\top A M^{-1}, \qquad
       \sigma^2 = \frac{|a - y|^2}{K - \operatorname{tr} A M^{-1} A^\top}.

    Args:
        values: :math:`\partial a / \partial \theta`, (K, parameters).
        slopes: :math:`\partial g / \partial \theta`, (N, parameters).
        columns: :math:`\partial g / \partial \alpha`, (N, m).
        off: :math:`a - y`, (K,).

    >>> import torch
    >>> ones = torch.ones(4, 1, dtype=torch.float64)  # the mean of four numbers, which alpha must be
    >>> off = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    >>> found = gauss_newton_uncertainty(ones, 1e4 * ones[:1], -1e4 * ones[:1], off)
    >>> round(found.noise ** 2, 6), round(found.errors.item() ** 2, 6)
    (1.333333, 0.333333)
    """
    m, unit = columns.shape[1], _unit(slopes, columns)
    a = torch.cat([values, values.new_zeros(len(values), m)], dim=1)
    jacobian = torch.cat([a, torch.cat([slopes, columns * unit], dim=1)])
    held = _FLOOR * torch.linalg.vector_norm(jacobian) * torch.eye(jacobian.shape[1], dtype=a.dtype, device=a.device)
    triangle = torch.linalg.qr(torch.cat([jacobian, held]), mode="r").R  # M = R' R
    leverage = torch.linalg.solve_triangular(triangle, a, upper=True, left=False)  # A R^-1
    corner = torch.linalg.inv(triangle[-m:, -m:])  # alpha's rows of R^-1 are (0, corner)
    freedom = leverage.square().sum().item()
    left = max(len(off) - freedom, 1.0)
    noise = (off.square().sum().item() / left) ** 0.5
    moved = unit[:, None] * (corner @ leverage[:, -m:].T)  # alpha's rows of M^-1 A'
    inverse = unit[:, None] * (corner @ corner.T) * unit
    return Uncertainty(noise**2 * (moved @ moved.T), inverse, noise, freedom, left)


def _unit(slopes: Tensor, columns: Tensor) -> Tensor:
    """Units of the coefficients in which their columns are as large as all others together, (m,)."""
    return slopes.norm() / len(slopes) ** 0.5 / columns.norm(dim=0).clamp_min(torch.finfo(columns.dtype).tiny)


@torch.no_grad()
def fitted_uncertainty(task: Pde, discovery: Discovery) -> Uncertainty:
    """Of the coefficients of the terms that are kept, in a fit with the recipe's weights to the samples of a task."""
    samples, problem, weights = task.source.samples, task.problem, task.setup.settings.weights
    assert samples is not None
    at, measured = task.placed(tuple(samples))
    places = task.placed(task.source.draw(task.source.count, task.setup.seed, 0))
    of_values = weights.samples**0.5 / problem.scale / measured.numel() ** 0.5
    of_equation = weights.equation**0.5 * problem.duration / problem.scale / len(places) ** 0.5

    def residual(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        u = problem.derivatives(lambda p: task.solution_of(f, p), x, discovery.needed)
        return discovery.residual_of(u)

    u = problem.derivatives(task.solution, places, discovery.needed)
    return gauss_newton_uncertainty(
        of_values * parameter_jacobian(task.model, task.solution_of, at).double(),
        of_equation * parameter_jacobian(task.model, residual, places).double(),
        -of_equation * discovery.columns(u, discovery.kept).double(),
        of_values * (task.solution(at) - measured)[:, 0].double(),
    )
