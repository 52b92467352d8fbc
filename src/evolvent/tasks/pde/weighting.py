"""Weights that follow the training: of times, of points and of the parts of the objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent.equations.problems import Problem
from evolvent.tasks.pde.settings import PART_NAMES, PdeData, PdeSettings, WeightingSettings

_KEPT = 0.5  # of the factors of parts, when they are measured anew


class Weighting(nn.Module):
    r"""Factors of squared residuals and of the parts of an objective, renewed after each epoch.

    Between two renewals they are constant, so that a line search compares values of one objective.

    - ``causal``: time is divided into slabs, and slab k has the factor :math:`\exp(-\varepsilon \sum_{j<k} L_j)` of the
      losses of those before it (Wang, Sankaran and Perdikaris 2022): what is later is learned when what is earlier is.
    - ``attention``: points have the factor :math:`\lambda_i / \bar\lambda` with :math:`\lambda_i \leftarrow
      \gamma \lambda_i + (1 - \gamma) |r_i| / \max |r|` (Anagnostopoulos et al. 2024), a bounded form of self-adaptive
      weights (McClenny and Braga-Neto 2023).
    - ``balance``: part j has the factor :math:`\frac 1m \sum_k |g_k| / |g_j|` of the gradients of all m parts (Wang,
      Teng and Perdikaris 2021), in a moving average.
    - ``pseudo_time``: residuals become :math:`r_i + (u_i - u_i^-) / \tau` with the values :math:`u_i^-` at the last
      renewal, so that the training follows a path towards the solution.

    Args:
        settings: which of them.
        points: number of points.
        unknowns: components of u.
    """

    of_points: Tensor
    of_slabs: Tensor
    of_parts: Tensor
    previous: Tensor
    started: Tensor

    def __init__(self, settings: WeightingSettings, points: int, unknowns: int = 1) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("of_points", torch.ones(points, dtype=torch.float64))
        self.register_buffer("of_slabs", torch.ones(settings.slabs, dtype=torch.float64))
        self.register_buffer("of_parts", torch.ones(len(PART_NAMES), dtype=torch.float64))
        self.register_buffer("previous", torch.zeros(points, unknowns, dtype=torch.float64))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def shares(self, rows: Tensor, times: Tensor) -> Tensor:
        """Factors of squared residuals, (n,), of points with these numbers and times from 0 to 1."""
        return self.of_slabs[self._slabs(times)] * self.of_points[rows] / self.of_points.mean()

    @property
    def drifts(self) -> bool:
        """Whether pseudo-time adds to the residuals; it does not before the first renewal."""
        return self.settings.pseudo_time is not None and bool(self.started)

    def pull(self, u: Tensor) -> Tensor:
        """What pseudo-time makes of a u in units of the solution: that of now minus that of then joins the residual."""
        assert self.settings.pseudo_time is not None
        return u / self.settings.pseudo_time

    def factor(self, part: str) -> float:
        """Of a part of the objective."""
        return self.of_parts[PART_NAMES.index(part)].item()

    @torch.no_grad()
    def renew(self, squares: Tensor, times: Tensor, u: Tensor) -> None:
        """From the squared residuals, times and values of u of all points."""
        squares, slabs = squares.double(), self._slabs(times)
        if self.settings.causal is not None:
            sums = torch.zeros_like(self.of_slabs).index_add_(0, slabs, squares)
            losses = sums / torch.bincount(slabs, minlength=len(sums)).clamp_min(1)
            self.of_slabs.copy_(torch.exp(-self.settings.causal * (losses.cumsum(0) - losses)))
        if self.settings.attention is not None:
            sizes = squares.sqrt() / squares.sqrt().max().clamp_min(1e-300)
            self.of_points.lerp_(sizes, 1 - self.settings.attention)
        self.previous.copy_(u.double())
        self.started.fill_(True)

    @torch.no_grad()
    def rebalance(self, gradients: Mapping[str, Sequence[Tensor]]) -> None:
        """From the gradients of parts, without their factors."""
        sizes = {name: torch.stack([g.norm() for g in row]).norm().item() for name, row in gradients.items()}
        mean = sum(sizes.values()) / len(sizes)
        for name, size in sizes.items():
            k = PART_NAMES.index(name)
            self.of_parts[k] = _KEPT * self.of_parts[k] + (1 - _KEPT) * mean / max(size, 1e-12 * mean, 1e-300)

    def _slabs(self, times: Tensor) -> Tensor:
        return (times * len(self.of_slabs)).long().clamp(0, len(self.of_slabs) - 1)


def check_weighting(problem: Problem, settings: PdeSettings, data: PdeData) -> None:
    """Refuse weights that the method, the points or the problem do not allow."""
    given = settings.weighting
    if given is None:
        return
    if settings.method == "ritz" or settings.library is not None:
        raise ConfigError("task.weighting is for residuals of a known equation. Leave it out, or use method: pinn.")
    if data.fresh and (given.attention is not None or given.pseudo_time is not None):
        raise ConfigError("attention and pseudo_time remember points, so that they must stay. Set data.fresh: false.")
    if given.causal is not None and problem.time not in problem.domain:
        raise ConfigError(f"causal weights need a time, and {problem.name!r} has no coordinate {problem.time!r}.")
