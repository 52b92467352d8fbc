r"""The graph of a table of points, with weights that adapt to how dense the points lie.

.. math:: w_{ij} = \exp\Big(-4 \min\big(\tfrac{|x_i - x_j|^2}{\sigma_i \sigma_j}, 2\big)\Big)
    \quad\text{for the } k \text{ nearest } j \text{ of } i

with :math:`\sigma_i` the distance of the k-th neighbour, as of Zelnik-Manor and Perona, "Self-tuning spectral
clustering", NeurIPS 2004. The lower bound keeps outliers connected.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from evolvent.estimators.competition import Tell
from evolvent.graphs import Search, SparseMatrix, nearest_neighbours

_SHARPNESS = 4.0
_FARTHEST = 2.0  # beyond this, weights do not fall any more
_ROWS_AT_A_TIME = 1 << 14  # new points whose neighbours are searched between two reports of progress


class PointGraph:
    r"""The graph of a table of points, undirected: :math:`\tfrac12 (W + W^\top)`.

    Points at the same place are one node. The unit of their coordinates has no effect.

    Args:
        x: points.
        neighbours: :math:`k`; at most as many as there are other nodes.
        search: how neighbours are found, see :func:`~evolvent.graphs.nearest_neighbours`.
        tell: called with the share of the search that is done.

    Attributes:
        weights: sparse, float32, (nodes, nodes).
        owner: the node of each point, int64 (N,).
        nodes: where they lie, (nodes, d), with 1 for the largest coordinate or a little less.

    Shape: (N, d).

    >>> graph = PointGraph(np.array([[0.0], [1.0], [1.0], [2.0]]), 1)
    >>> graph.owner.tolist(), graph.weights.shape
    ([0, 1, 1, 2], (3, 3))
    """

    def __init__(
        self, x: np.ndarray, neighbours: int = 10, search: Search = "auto", tell: Tell = lambda share: None
    ) -> None:
        first, self.owner = distinct_rows(x)
        self._exponent = -int(np.frexp(np.abs(x).max(initial=0.0))[1])
        self.nodes = self._scaled(x[first])
        self.neighbours = min(int(neighbours), len(first) - 1)
        if not self.neighbours:
            self.scales, self.weights = np.ones(1), SparseMatrix.from_dense(torch.zeros(1, 1))
            return
        indices, squares = nearest_neighbours(torch.from_numpy(self.nodes), self.neighbours, search=search, tell=tell)
        distances = squares.sqrt()
        self.scales = distances[:, -1].numpy()
        values = _weights(distances, distances[:, -1:], distances[:, -1][indices])
        self.weights = _undirected(indices, values.float() / 2)

    def mean(self, x: np.ndarray, shares: np.ndarray, tell: Tell = lambda share: None) -> np.ndarray:
        r"""The mean of what the nearest nodes of new points have, :math:`\sum_j w_j p_j`, with the same weights.

        Args:
            x: new points, (M, d).
            shares: of each node, (nodes, C).
        """
        from sklearn.neighbors import NearestNeighbors

        count = max(self.neighbours, 1)
        search = NearestNeighbors(n_neighbors=count).fit(self.nodes)
        found = np.empty((len(x), shares.shape[1]))
        for first in range(0, len(x), _ROWS_AT_A_TIME):
            part = slice(first, first + _ROWS_AT_A_TIME)
            distances, nearest = search.kneighbors(self._scaled(x[part]))
            pair = torch.from_numpy(distances), torch.from_numpy(self.scales[nearest])
            weights = _weights(pair[0], pair[0][:, -1:], pair[1]).numpy()
            found[part] = np.einsum("ij,ijc->ic", weights, shares[nearest])
            tell(min(1.0, part.stop / len(x)))
        return found

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        """In another unit, so that squares neither overflow nor vanish; new points may be far, but not without end."""
        end = np.finfo(x.dtype).max ** 0.25
        with np.errstate(over="ignore"):
            return np.ldexp(x, self._exponent).clip(-end, end)


def distinct_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of each set of equal rows, in the order of the table, and the number of each row's set.

    >>> distinct_rows(np.array([[1.0], [0.0], [1.0]]))
    (array([0, 1]), array([0, 1, 0]))
    """
    bits = np.ascontiguousarray(x + 0.0).view(f"u{x.itemsize}").astype(np.uint64, copy=False)  # -0 is 0
    factors = np.random.default_rng(0).integers(1, 2**63, x.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    first, owner = _groups((bits * factors).sum(axis=1))
    if not np.array_equal(x[first[owner]], x):  # two different rows of one sum
        first, owner = _groups(x)
    return first, owner


def _groups(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each set of equal keys, ascending, and the number of each row's set."""
    _, first, owner = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return first[order], number[owner.ravel()]


def _weights(distances: Tensor, own: Tensor, other: Tensor) -> Tensor:
    tiny = torch.finfo(distances.dtype).tiny ** 0.5
    ratio = distances / own.clamp_min(tiny) * (distances / other.clamp_min(tiny))
    return torch.exp(-_SHARPNESS * ratio.clamp(max=_FARTHEST))


def _undirected(columns: Tensor, values: Tensor) -> SparseMatrix:
    """The sum of a matrix with as many entries in each row and its transpose."""
    count = len(columns)
    rows = torch.arange(count)[:, None].expand_as(columns).flatten()
    pairs = torch.cat([rows, columns.flatten()]), torch.cat([columns.flatten(), rows])
    return SparseMatrix.from_entries(*pairs, values.flatten().repeat(2), (count, count))
