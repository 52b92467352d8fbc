"""A graph whose nodes have features and classes, its splits, and how one is read by name."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import check_whole
from evolvent._core.errors import DataError
from evolvent._core.randomness import Stream, key, permutation
from evolvent.data.datasets import CatalogueEntry
from evolvent.data.formats.arrays import GraphArrays
from evolvent.data.locations import Location, locate
from evolvent.graphs import SparseMatrix, largest_component, subgraph


@dataclass(frozen=True)
class NodeSplit:
    """Nodes for training, validation and test, int64 and ascending."""

    train: Tensor
    validation: Tensor
    test: Tensor


@dataclass(frozen=True)
class GraphData:
    r"""An undirected graph without weights whose nodes have features and, most of them, a class.

    Attributes:
        graph: adjacency :math:`A`, entries 0 and 1, symmetric, no loops.
        features: one row for each node.
        labels: int64 (N,), indices into ``classes``; -1 for nodes without a class.
        split: the published split, if there is one.
        source: where the data came from.

    Shape: graph (N, N); features (N, F).

    >>> path = SparseMatrix.from_dense(torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    >>> data = GraphData("path", path, SparseMatrix.from_dense(torch.eye(3)), torch.tensor([0, 1, 0]), ("a", "b"))
    >>> data.random_split(seed=0, train=1, validation=0).test.tolist() in ([0], [2])
    True
    """

    name: str
    graph: SparseMatrix
    features: SparseMatrix
    labels: Tensor
    classes: tuple[str, ...]
    split: NodeSplit | None = None
    source: str = ""

    def __post_init__(self) -> None:
        _check_graph(self.name, self.graph)
        nodes = len(self.graph)
        if len(self.features) != nodes or self.labels.shape != (nodes,):
            found = f"{len(self.features)} rows of features and labels of shape {tuple(self.labels.shape)}"
            raise DataError(f"{self.name}: a graph of {nodes} nodes needs as many features and labels, found {found}.")
        if not bool(self.features.values.isfinite().all()):
            raise DataError(f"{self.name}: some features are NaN or infinite. Replace them by numbers.")
        _check_labels(self.name, self.labels, len(self.classes))

    def __len__(self) -> int:
        return len(self.graph)

    def row_normalised(self) -> GraphData:
        """Every node's features divided by their sum; those of nodes whose sum is zero stay as they are."""
        sums = self.features.row_sums()
        return replace(self, features=self.features.scaled(torch.where(sums == 0, 1.0, 1 / sums)))

    def largest_component(self) -> GraphData:
        """The largest connected component, whose nodes keep their order; it has no published split."""
        nodes = largest_component(self.graph)
        return replace(
            self,
            graph=subgraph(self.graph, nodes),
            features=_some_rows(self.features, nodes),
            labels=self.labels[nodes],
            split=None,
        )

    def public_split(self) -> NodeSplit:
        """The published split.

        Raises:
            DataError: if there is none, or it cannot be used: each part needs nodes, all with a class and in no other.
        """
        if self.split is None:
            raise DataError(f"{self.name} has no published split, or a part of it was taken. Use random splits.")
        _check_split(self.name, self.split, self.labels)
        return self.split

    def random_split(self, seed: int, train: int = 20, validation: int = 30) -> NodeSplit:
        """So many nodes of each class for training and validation, all other nodes with a class for test.

        Args:
            seed: the split is a function of it alone.
            train, validation: nodes of each class.

        Raises:
            DataError: if a class has too few nodes, or none is left for test.
        """
        check_whole(1, train=train)
        check_whole(0, validation=validation)
        order = permutation(len(self), *key(Stream.NODES, seed))
        parts: tuple[list[Tensor], ...] = ([], [], [])
        for number, name in enumerate(self.classes):
            nodes = order[self.labels[order] == number]
            if len(nodes) < train + validation:
                raise DataError(
                    f"{self.name}: class {name} has {len(nodes)} nodes, but {train} for training and {validation} for "
                    "validation are asked for. Ask for fewer of each class."
                )
            sizes = [train, validation, len(nodes) - train - validation]
            for part, some in zip(parts, nodes.split(sizes), strict=True):
                part.append(some)
        split = NodeSplit(*(torch.cat(part).sort().values for part in parts))
        if not len(split.test):
            raise DataError(
                f"{self.name}: {train} nodes of each class for training and {validation} for validation leave none for "
                "test. Ask for fewer of each class."
            )
        return split


def load_graph(name: str, folder: str | os.PathLike[str] | None = None) -> GraphData:
    """Read a graph by its name; nothing is downloaded.

    Args:
        name: one of :func:`list_datasets` that is a graph, such as ``"cora"``.
        folder: contains its files or a folder named after it; by default ``EVOLVENT_DATA``, then the cache.
    """
    return read_graph(locate(name, folder))


def read_graph(location: Location) -> GraphData:
    """Read and check the files that were located."""
    entry, match = location.entry, location.match
    if entry.kind != "graph":
        raise DataError(f"{entry.name} is a set of images, not a graph. Read it with evolvent.data.load.")
    try:
        arrays = match.layout.read(location.files)
        assert isinstance(arrays, GraphArrays)
        what = match.files[0].name if len(match.files) == 1 else match.layout.title
        return _graph_data(entry, arrays, f"{what} in {match.folder}")
    except DataError as error:
        raise DataError(f"{error} {entry.advice}") from error


def _graph_data(entry: CatalogueEntry, arrays: GraphArrays, source: str) -> GraphData:
    nodes = len(arrays.labels)
    graph = graph_of_edges(entry.name, arrays.edges, nodes)
    found = (nodes, len(graph.columns) // 2, arrays.width)
    if found[2] != entry.shape[2]:
        raise DataError(f"{entry.name}: {entry.shape[2]} features are expected, found {found[2]}.")
    source += f", {nodes:,} nodes and {found[1]:,} edges"
    if found != entry.shape:
        source += f" (of {entry.shape[0]:,} and {entry.shape[1]:,})"
    parts = (_split_part(entry.name, part, nodes) for part in (arrays.train, arrays.val, arrays.test))
    classes = entry.classes or tuple(map(str, range(entry.class_count)))
    labels = torch.from_numpy(arrays.labels.astype(np.int64))
    return GraphData(entry.name, graph, _features(entry.name, arrays), labels, classes, NodeSplit(*parts), source)


def graph_of_edges(name: str, edges: np.ndarray, nodes: int) -> SparseMatrix:
    """The adjacency of an undirected graph from pairs of nodes, in one or both directions; loops are left out."""
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise DataError(f"{name}: edges are pairs of nodes, of shape (2, edges), found {edges.shape}.")
    if edges.size and not 0 <= edges.min() <= edges.max() < nodes:
        raise DataError(f"{name}: edges connect nodes 0 ... {nodes - 1}, found {edges.min()} ... {edges.max()}.")
    one, other = torch.from_numpy(edges[:, edges[0] != edges[1]].astype(np.int64))
    rows, columns = torch.cat([one, other]), torch.cat([other, one])
    both = SparseMatrix.from_entries(rows, columns, torch.ones(len(rows)), (nodes, nodes))
    return both.with_values(torch.ones_like(both.values))


def _features(name: str, arrays: GraphArrays) -> SparseMatrix:
    from scipy.sparse import csr_array

    starts, columns, values = arrays.starts, arrays.columns, arrays.values
    ordered = len(starts) == len(arrays.labels) + 1 and starts[0] == 0 and starts[-1] == len(columns) == len(values)
    inside = len(columns) == 0 or 0 <= columns.min() <= columns.max() < arrays.width
    if not ordered or not inside or (np.diff(starts) < 0).any():
        raise DataError(f"{name}: the features are not a compressed sparse matrix of {len(arrays.labels)} rows.")
    return SparseMatrix.from_scipy(csr_array((values, columns, starts), shape=(len(starts) - 1, arrays.width)))


def _split_part(name: str, nodes: np.ndarray, count: int) -> Tensor:
    if nodes.ndim != 1 or (nodes.size and not 0 <= nodes.min() <= nodes.max() < count):
        raise DataError(f"{name}: the published split must name nodes 0 ... {count - 1}.")
    return torch.from_numpy(np.sort(nodes.astype(np.int64)))


def _check_split(name: str, split: NodeSplit, labels: Tensor) -> None:
    for part, nodes in vars(split).items():
        if not len(nodes):
            raise DataError(f"{name}: the part {part} of the published split is empty. Add nodes or use random splits.")
        if unknown := int((labels[nodes] < 0).sum()):
            raise DataError(
                f"{name}: {unknown} of {len(nodes)} nodes in the part {part} of the published split have no class. "
                "Leave them out of it, or use random splits."
            )
    every = torch.cat(list(vars(split).values()))
    if twice := len(every) - len(every.unique()):
        raise DataError(
            f"{name}: the published split names {twice} of its {len(every)} nodes more than once. Name each in one "
            "part, or use random splits."
        )


def _some_rows(matrix: SparseMatrix, rows: Tensor) -> SparseMatrix:
    counts = matrix.starts.diff()[rows]
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    first = torch.repeat_interleave(matrix.starts[rows] - starts[:-1], counts)
    entries = first + torch.arange(int(starts[-1]))
    return SparseMatrix(starts, matrix.columns[entries], matrix.values[entries], matrix.width)


def _check_graph(name: str, graph: SparseMatrix) -> None:
    if not graph.is_symmetric:
        raise DataError(
            f"{name}: the graph is directed, an undirected one is needed. Make it one with evolvent.graphs.undirected."
        )
    if not bool((graph.values == 1).all()) or bool((graph.rows == graph.columns).any()):
        raise DataError(f"{name}: the graph has weights or loops; edges of weight 1 between two nodes are needed.")


def _check_labels(name: str, labels: Tensor, classes: int) -> None:
    found = labels.unique().tolist()
    expected = [-1, *range(classes)] if -1 in found else list(range(classes))
    if found != expected:
        ends = f"{found[0]} ... {found[-1]} ({len(found)} values)" if found else "none"
        raise DataError(f"{name}: classes 0 ... {classes - 1}, all of them, are expected, -1 for none; found {ends}.")
