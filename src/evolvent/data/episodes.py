"""Few-shot tasks, drawn from labelled points: a support with labels, and a query to be classified."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from evolvent._core.checks import check_positive, check_whole, described
from evolvent._core.errors import DataError
from evolvent._core.randomness import Stream, key, uniform
from evolvent.data.source import Source

_SMALLEST = 1e-300  # draw of a gamma distribution that is trusted


class EpisodeBatch(NamedTuple):
    """Points (T, N, d) of T episodes, ``way * shot`` of the support first, class by class; labels int64 (T, N).

    For episodes of images the points are uint8 (T, N, C, H, W).
    """

    points: Tensor
    labels: Tensor
    way: int
    shot: int

    @property
    def support(self) -> int:
        """Points of the support."""
        return self.way * self.shot


class Episodes(Source):
    r"""Episodes, one in each row; which points it has is a function of the seed and its number.

    ``way`` classes are drawn, then ``shot`` points of each for the support and others for the query: ``query`` of each
    class or, with ``alpha``, as many in all, divided between the classes by proportions from a Dirichlet distribution,

    .. math:: (\pi_1, \ldots, \pi_{way}) \sim \mathrm{Dir}(\alpha, \ldots, \alpha)

    rounded to whole numbers and limited by the points that a class has (Veilleux, Boudiaf, Piantanida, Ben Ayed 2021).
    Methods that assume classes of equal size lose accuracy then.

    Args:
        points: to draw from: feature vectors, images, or whatever else has rows.
        labels: their classes, 0, 1, ...
        count: number of episodes.
        way, shot, query: classes, points of each in the support, and in the query on average.
        alpha: of the Dirichlet distribution; None for equal classes.

    Shape: points (M, ...), labels int64 (M,).

    >>> episodes = Episodes(torch.randn(60, 4), torch.arange(60) % 6, 100, way=5, shot=1, query=3)
    >>> batch = episodes.take(torch.tensor([0, 7]), seed=0, epoch=0)
    >>> batch.points.shape, batch.labels[0, :5].tolist()
    (torch.Size([2, 20, 4]), [0, 1, 2, 3, 4])
    """

    def __init__(
        self,
        points: Tensor,
        labels: Tensor,
        count: int,
        *,
        way: int = 5,
        shot: int = 1,
        query: int = 15,
        alpha: float | None = None,
    ) -> None:
        check_whole(1, count=count, shot=shot, query=query)
        check_whole(2, way=way)
        if alpha is not None:
            check_positive(alpha=alpha)
        _check_points(points, labels)
        self.points = points
        self.count, self.way, self.shot, self.query, self.alpha = count, way, shot, query, alpha
        self._sizes = torch.bincount(labels)
        self._check_sizes()
        order = labels.argsort(stable=True)
        starts = self._sizes.cumsum(0) - self._sizes
        places = torch.arange(int(self._sizes.max()))
        # row of the point of a class and a place in it; places beyond its size are never chosen
        self._table = order[(starts[:, None] + places).clamp_(max=len(order) - 1)]

    def __len__(self) -> int:
        return self.count

    def take(self, rows: Tensor, seed: int, epoch: int) -> EpisodeBatch:
        classes = self._classes(rows, seed, epoch)  # (T, way)
        order = self._shuffled(rows, classes, seed, epoch)  # (T, way, places): rows of features
        labels = torch.arange(self.way)
        support = order[..., : self.shot].flatten(1)
        counts = self._query_counts(rows, classes, seed, epoch)
        inside = torch.arange(order.shape[-1] - self.shot) < counts[..., None]
        query = order[..., self.shot :][inside].view(len(rows), -1)
        query_labels = labels[None, :, None].expand_as(inside)[inside].view(len(rows), -1)
        support_labels = labels.repeat_interleave(self.shot).expand(len(rows), -1)
        points = self.points[torch.cat((support, query), 1)]
        return EpisodeBatch(points, torch.cat((support_labels, query_labels), 1), self.way, self.shot)

    def _classes(self, rows: Tensor, seed: int, epoch: int) -> Tensor:
        count = len(self._sizes)
        index = rows[:, None] * count + torch.arange(count)
        scores = uniform(index, *key(Stream.EPISODE_CLASSES, seed, epoch))
        return scores.argsort(dim=1, stable=True)[:, : self.way]

    def _shuffled(self, rows: Tensor, classes: Tensor, seed: int, epoch: int) -> Tensor:
        """All points of the drawn classes in random order; places that a class does not have come last."""
        places = torch.arange(self._table.shape[1])
        index = (rows[:, None, None] * self.way + torch.arange(self.way)[:, None]) * len(places) + places
        scores = uniform(index, *key(Stream.EPISODE_POINTS, seed, epoch))
        scores.masked_fill_(places >= self._sizes[classes][..., None], 2.0)
        order = scores.argsort(dim=-1, stable=True)
        return self._table[classes].gather(-1, order)

    def _query_counts(self, rows: Tensor, classes: Tensor, seed: int, epoch: int) -> Tensor:
        """Points of each class in the query.

        Shape: (T, way).
        """
        if self.alpha is None:
            return torch.full_like(classes, self.query)
        index = rows[:, None] * self.way + torch.arange(self.way)
        levels = uniform(index, *key(Stream.EPISODE_SIZES, seed, epoch)).double().clamp_(min=2.0**-25)
        return _apportioned(_dirichlet(self.alpha, levels), self.way * self.query, self._sizes[classes] - self.shot)

    def _check_sizes(self) -> None:
        sizes, way = self._sizes, self.way
        if len(sizes) < way:
            raise DataError(
                f"episodes of {way} classes cannot be drawn from {len(sizes)} classes. Choose a smaller way."
            )
        smallest = sizes.sort().values
        if self.alpha is None and smallest[0] < self.shot + self.query:
            raise DataError(
                f"each class needs {self.shot} + {self.query} points for support and query, but one has {smallest[0]}. "
                "Choose a smaller shot or query."
            )
        room = (smallest[:way] - self.shot).clamp(min=0).sum()
        if self.alpha is not None and (room < way * self.query or smallest[0] < self.shot):
            raise DataError(
                f"a query of {way * self.query} points does not fit into the {way} smallest classes, which have {room} "
                f"besides a support of {self.shot} each. Choose a smaller shot or query."
            )


def _check_points(points: Tensor, labels: Tensor) -> None:
    if labels.shape != points.shape[:1] or labels.is_floating_point() or labels.dtype == torch.bool:
        raise DataError(
            f"episodes need an integer label for each of {len(points)} points, got {described(labels)}. Convert labels "
            "with labels.long()."
        )
    if len(labels) and int(labels.min()) < 0:
        raise DataError(f"labels of episodes are classes 0, 1, ..., got {int(labels.min())}. Leave such points out.")
    if points.is_floating_point() and not bool(points.isfinite().all()):
        raise DataError("some points of the episodes are NaN or infinite. Leave them out or fill them in.")


def _dirichlet(alpha: float, levels: Tensor) -> Tensor:
    r"""Shares of a symmetric Dirichlet distribution: quantiles of the gamma distribution, divided by their sum.

    Quantiles too small for float64 are known by their logarithms, from :math:`P(\alpha, x) \approx x^\alpha /
    \Gamma(\alpha + 1)`.

    Shape: levels (T, way) between 0 and 1 to the same.
    """
    from scipy.special import gammaincinv

    found = torch.from_numpy(gammaincinv(alpha, levels.numpy()))
    draws, tiny = found.clamp(min=_SMALLEST), found < _SMALLEST
    logarithms = torch.where(tiny, (levels.log() + math.lgamma(alpha + 1)) / alpha, draws.log())
    return torch.where(tiny.any(1, keepdim=True), logarithms.softmax(1), draws / draws.sum(1, keepdim=True))


def _apportioned(shares: Tensor, total: int, room: Tensor) -> Tensor:
    """Whole numbers that add up to ``total``, nearest to ``shares`` of it and at most ``room``.

    >>> _apportioned(torch.tensor([[0.75, 0.25]]), 10, torch.tensor([[5, 20]])).tolist()
    [[5, 5]]
    """
    counts = torch.minimum((shares * total).floor().long(), room)
    while (left := total - counts.sum(1)).any():
        # one more for the classes that lack most, where there is room
        lacking = (shares * total - counts).masked_fill(counts >= room, -torch.inf)
        rank = lacking.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        counts += (rank < left[:, None]) & (counts < room)
    return counts
