"""Five ways to classify the query of an episode: with and without convection, with and without diffusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from evolvent._core.checks import check_choice, check_not_negative, check_whole
from evolvent._core.errors import ConfigError
from evolvent.data import EpisodeBatch
from evolvent.graphs import laplacian
from evolvent.graphs.distances import distances
from evolvent.networks.diff_resnet_fewshot import FewShotNetwork, Reading
from evolvent.tasks.fewshot.algebra import train_episodes
from evolvent.tasks.fewshot.descent import Descent
from evolvent.tasks.fewshot.objective import EpisodeObjective
from evolvent.tasks.fewshot.prototypes import prototypes, rectified_prototypes

Method: TypeAlias = Literal["prototype", "diffusion", "convection", "external", "internal"]
TRAINED: tuple[Method, ...] = ("convection", "external", "internal")

_BOUND_STEPS = 20  # of the published code


@dataclass(frozen=True)
class Classifier:
    r"""How the query of an episode is classified; Wang et al., section 5.3.

    - ``prototype``: the nearest mean of a class.
    - ``diffusion``: labels propagated between neighbours, see :func:`propagate_labels`.
    - ``convection``: a residual network, trained on the support.
    - ``external``: the same, with :math:`\tfrac\mu2 \sum w_{ij} |z_i - z_j|^2` in the objective; the code has
      :math:`\mu` for :math:`\tfrac\mu2`.
    - ``internal``: Diff-ResNet, trained on the support.

    Args:
        method: which of the five.
        lam: weight :math:`\lambda` of label propagation.
        neighbours: of a point, in label propagation; the code counts the point itself.
        mu: weight of the external term.
        rectify: use rectified prototypes.
        prototype_weight: weight :math:`\alpha` of the prototypical loss, of trained methods.
        reading: where paper and code differ, which of them.
    """

    method: Method
    lam: float = 0.5
    neighbours: int = 3
    mu: float = 0.01
    rectify: bool = False
    prototype_weight: float = 0.0
    reading: Reading = "paper"

    def __post_init__(self) -> None:
        check_choice("method", self.method, get_args(Method))
        check_choice("reading", self.reading, get_args(Reading))
        check_not_negative(lam=self.lam, mu=self.mu, prototype_weight=self.prototype_weight)
        check_whole(2 if self.reading == "code" else 1, neighbours=self.neighbours)

    def check_network(self, network: FewShotNetwork) -> None:
        """Refuse a network that is not that of the method."""
        if self.method == "internal" and not network.diffuses:
            raise ConfigError("method internal needs a network that diffuses, such as diff_resnet_fewshot.")
        if self.method in TRAINED and self.method != "internal" and network.diffuses:
            raise ConfigError(f"method {self.method} needs a network without diffusion, resnet_fewshot.")

    def classify(self, episodes: EpisodeBatch, network: FewShotNetwork, descent: Descent) -> Tensor:
        """The classes of the query.

        Args:
            episodes: after any transformation of their features.
            network: its weights are those from which trained methods start in every episode.
            descent: of trained methods.

        Shape: int64 (T, Q).
        """
        self.check_network(network)
        x, support = episodes.points, episodes.support
        if self.method in TRAINED:
            return train_episodes(network, x, self.objective(episodes, network), descent)[:, support:].argmax(-1)
        away = self._distances(episodes)
        if self.method == "prototype":
            return away.argmin(-1)
        near = self.neighbours - (self.reading == "code")
        return propagate_labels(away, neighbour_matrix(x[:, support:], near), self.lam).argmax(-1)

    def objective(self, episodes: EpisodeBatch, network: FewShotNetwork) -> EpisodeObjective:
        """What a trained method minimises."""
        away = self._distances(episodes) if self.prototype_weight else None
        labels = episodes.labels[:, : episodes.support]
        if self.method != "external":
            return EpisodeObjective(labels, self.prototype_weight, away)
        weight = self.mu / 2 if self.reading == "paper" else self.mu
        L = laplacian(network.weights(episodes.points))
        return EpisodeObjective(labels, self.prototype_weight, away, weight, L)

    def _distances(self, episodes: EpisodeBatch) -> Tensor:
        """Of the query from the prototypes.

        Shape: (T, Q, way).
        """
        x, way, shot = episodes.points, episodes.way, episodes.shot
        means = rectified_prototypes(x, way, shot, self.reading) if self.rectify else prototypes(x, way, shot)
        return distances(x[:, episodes.support :], means)


def neighbour_matrix(x: Tensor, neighbours: int) -> Tensor:
    """1 where a point is among the nearest of another, itself excluded; else 0.

    Shape: (T, Q, d) to (T, Q, Q).
    """
    near = distances(x, x)
    near.diagonal(dim1=-2, dim2=-1).fill_(-1)
    nearest = near.topk(min(neighbours + 1, x.shape[1]), largest=False).indices[..., 1:]
    return torch.zeros_like(near).scatter_(-1, nearest, 1.0)


def propagate_labels(distances: Tensor, weights: Tensor, lam: float, steps: int = _BOUND_STEPS) -> Tensor:
    r"""Probabilities of classes that are near a prototype and agree with those of neighbours.

    .. math:: \min_{y_i \in \Delta} \sum_i y_i \cdot (\log y_i + a_i) - \tfrac\lambda2 \sum_{ij} w_{ij} y_i \cdot y_j

    by steps :math:`y_i \leftarrow \mathrm{softmax}(-a_i + \lambda \sum_j w_{ij} y_j)`, each of which minimises a bound
    from above: LaplacianShot, Ziko, Dolz, Granger, Ben Ayed 2020, eq. (12).

    Args:
        distances: :math:`a`.
        weights: :math:`W`.
        lam: :math:`\lambda`.
        steps: how many.

    Shape: (T, Q, classes), (T, Q, Q) to (T, Q, classes).
    """
    y = (-distances).softmax(-1)
    for _ in range(steps):
        y = torch.baddbmm(distances, weights, y, beta=-1, alpha=lam).softmax(-1)
    return y
