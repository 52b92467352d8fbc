"""Connected components of a graph, and whether they are the subclasses that the theory of diffusion asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from evolvent._core.errors import ShapeError
from evolvent.graphs.sparse import SparseMatrix, check_graph


def connected_components(graph: SparseMatrix) -> Tensor:
    """The number of each node's component, counted from 0; edges connect in both directions, but those of weight 0.

    Shape: (N, N) to int64 (N,).

    >>> connected_components(SparseMatrix.from_dense(torch.tensor([[0., 1., 0.], [0., 0., 0.], [0., 0., 1.]]))).tolist()
    [0, 0, 1]
    """
    from scipy.sparse.csgraph import connected_components as components

    check_graph(graph)
    edges = graph.to_scipy().copy()
    edges.eliminate_zeros()  # weights of far points
    _, found = components(edges, directed=True, connection="weak")
    return torch.from_numpy(found).long()


def largest_component(graph: SparseMatrix) -> Tensor:
    """The nodes of the largest connected component, ascending; the first of equally large ones."""
    found = connected_components(graph)
    return (found == torch.bincount(found, minlength=1).argmax()).nonzero().flatten()


def subgraph(graph: SparseMatrix, nodes: Tensor) -> SparseMatrix:
    """The graph of some nodes, numbered anew in the order given, and of the edges between them."""
    check_graph(graph)
    number = torch.full((len(graph),), -1, device=graph.device).index_copy_(
        0, nodes, torch.arange(len(nodes), device=graph.device)
    )
    rows, columns = number[graph.rows], number[graph.columns]
    inside = (rows >= 0) & (columns >= 0)
    shape = (len(nodes), len(nodes))
    return SparseMatrix.from_entries(rows[inside], columns[inside], graph.values[inside], shape)


@dataclass(frozen=True)
class Connectivity:
    r"""Whether diffusion keeps subclasses apart and draws each together: Proposition 1 of Wang et al. asks that each
    subclass is one connected component.

    Attributes:
        crossing_edges: edges between different subclasses; a smaller ``n_top`` has fewer.
        components: number of components inside each subclass, in the order of their labels; a larger ``n_top`` has
            fewer.
        neighbours_needed: :math:`\ln n` of the largest subclass, the order of neighbours at which a nearest-neighbour
            graph of :math:`n` points becomes connected.
    """

    crossing_edges: int
    components: list[int]
    neighbours_needed: float

    @property
    def holds(self) -> bool:
        return self.crossing_edges == 0 and all(count == 1 for count in self.components)


def connectivity(graph: SparseMatrix, subclasses: Tensor) -> Connectivity:
    """Compare the components of a graph with the subclasses of its nodes.

    Args:
        graph: of N nodes.
        subclasses: int64 (N,).
    """
    if subclasses.shape != (len(graph),):
        raise ShapeError(f"{len(graph)} nodes need as many subclasses, got shape {tuple(subclasses.shape)}.")
    present = graph.values > 0
    crossing = (subclasses[graph.rows] != subclasses[graph.columns]) & present
    labels, sizes = subclasses.unique(return_counts=True)
    inside = [
        int(connected_components(subgraph(graph, (subclasses == label).nonzero().flatten())).max()) + 1
        for label in labels
    ]
    return Connectivity(int(crossing.sum()), inside, math.log(int(sizes.max())))
