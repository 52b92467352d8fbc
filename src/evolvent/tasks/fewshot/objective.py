"""What a network is trained for in one episode, and its derivative by the answers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent._core.checks import described
from evolvent._core.errors import ConfigError, DataError, ShapeError

_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class EpisodeObjective:
    r"""Cross-entropy of the support, and optionally two terms that see all points.

    .. math::
        \ell(z) = -\frac1S \sum_{i \le S} \log p_{i y_i}
        + \alpha \sum_{i > S} \sum_c p_{ic}\, |x_i - m_c|
        + \kappa \sum_{i,j} w_{ij} |z_i - z_j|^2, \qquad p = \mathrm{softmax}(z)

    Wang et al., section 5.3 (4) and appendix E.3.1. Points 1 to S of each episode are its support.

    Args:
        labels: classes of the support.
        prototype_weight: :math:`\alpha`.
        distances: :math:`|x_i - m_c|` of the query from the prototypes, if :math:`\alpha > 0`.
        laplacian_weight: :math:`\kappa`.
        laplacian: :math:`L = D - W` of symmetric weights, if :math:`\kappa > 0`.

    Shape: labels (T, S); distances (T, Q, classes); laplacian (T, N, N).
    """

    labels: Tensor
    prototype_weight: float = 0.0
    distances: Tensor | None = None
    laplacian_weight: float = 0.0
    laplacian: Tensor | None = None

    def __post_init__(self) -> None:
        labels = self.labels
        if not isinstance(labels, Tensor) or labels.ndim != 2 or labels.dtype not in _WHOLE or 0 in labels.shape:
            raise ShapeError(f"labels of episodes are whole (episodes, support points), got {described(labels)}.")
        object.__setattr__(self, "labels", labels.long())
        for weight, name in (("prototype_weight", "distances"), ("laplacian_weight", "laplacian")):
            if getattr(self, weight) and getattr(self, name) is None:
                raise ConfigError(f"{weight} needs {name} as well, got None.")

    def check_fits(self, x: Tensor, classes: int) -> None:
        """Refuse points (T, N, d) of other episodes than those of the labels, and labels of other classes."""
        episodes, support = self.labels.shape
        if x.ndim != 3 or len(x) != episodes or x.shape[1] < support:
            raise ShapeError(
                f"labels of {support} points in each of {episodes} episodes need the points of as many episodes, "
                f"(episodes, points, features), got {described(x)}."
            )
        low, high = (int(end) for end in self.labels.aminmax())
        if low < 0 or high >= classes:
            raise DataError(f"labels of episodes are classes 0 to {classes - 1}, got {low if low < 0 else high}.")
        expected = {"distances": (episodes, x.shape[1] - support, classes), "laplacian": (*x.shape[:2], x.shape[1])}
        for name, shape in expected.items():
            given = getattr(self, name)
            if given is not None and tuple(given.shape) != shape:
                raise ShapeError(f"{name} of these episodes are of shape {shape}, got {described(given)}.")

    @property
    def sees_support_alone(self) -> bool:
        """Whether the answers to the query do not matter."""
        return not (self.prototype_weight or self.laplacian_weight)

    def part(self, tasks: slice) -> EpisodeObjective:
        """The objective of some of the episodes."""
        distances = None if self.distances is None else self.distances[tasks]
        L = None if self.laplacian is None else self.laplacian[tasks]
        return EpisodeObjective(self.labels[tasks], self.prototype_weight, distances, self.laplacian_weight, L)

    def value(self, answers: Tensor) -> Tensor:
        """The objective of each episode.

        Shape: (T, N, classes) to (T,).
        """
        support = self.labels.shape[1]
        total = F.cross_entropy(answers[:, :support].mT, self.labels, reduction="none").mean(-1)
        if self.prototype_weight:
            assert self.distances is not None
            total = total + self.prototype_weight * (answers[:, support:].softmax(-1) * self.distances).sum((-1, -2))
        if self.laplacian_weight:
            assert self.laplacian is not None  # the sum over pairs is twice z' L z
            total = total + 2 * self.laplacian_weight * (answers * (self.laplacian @ answers)).sum((-1, -2))
        return total

    def derivative(self, answers: Tensor) -> Tensor:
        """The derivative of :meth:`value` by the answers, both with the classes before the points.

        Shape: (T, classes, N) to the same.
        """
        support = self.labels.shape[1]
        out = torch.zeros_like(answers)
        near = answers[..., :support].softmax(1)
        near.scatter_add_(1, self.labels[:, None], near.new_full((), -1.0).expand(len(near), 1, support))
        torch.div(near, support, out=out[..., :support])
        if self.prototype_weight:
            assert self.distances is not None
            far, away = answers[..., support:].softmax(1), self.distances.mT
            mean = (far * away).sum(1, keepdim=True)
            torch.mul(far, away - mean, out=out[..., support:]).mul_(self.prototype_weight)
        if self.laplacian_weight:
            assert self.laplacian is not None
            out = torch.baddbmm(out, answers, self.laplacian, alpha=4 * self.laplacian_weight)
        return out
