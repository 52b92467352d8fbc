"""Networks that gather from neighbours, for comparison: GCN, GraphSAGE, GAT and APPNP."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import torch
from annotated_types import Gt, Le
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.graphs import SparseMatrix, normalise
from evolvent.networks._graph_skeleton import (
    GraphNetwork,
    GraphOptions,
    Nodes,
    StackedLinear,
    drop,
    drop_entries,
    kept_for,
    part_of,
)
from evolvent.networks._options import Count, Dropout, Width
from evolvent.networks._registry import register_family, register_member

Layers = Annotated[Count, "layers"]


class LayeredNetwork(GraphNetwork):
    """Layers one after the other, with dropout before each and an activation between them."""

    def __init__(self, options: GraphOptions, layers: list[nn.Module]) -> None:
        super().__init__(options)
        self.layers = nn.ModuleList(layers)

    def _answers(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        return self._apply_layer(-1, self._inner(x, graph), graph)

    def _features(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        u = self._inner(x, graph)
        u = u.dense() if isinstance(u, SparseMatrix) else u
        return u if u.ndim == 3 else u[:, None].expand(-1, self.initialisations, -1)

    def _inner(self, x: Nodes, graph: SparseMatrix) -> Nodes:
        """What the last layer reads."""
        for number in range(len(self.layers) - 1):
            x = self._activation(self._apply_layer(number, x, graph))
        return x

    def _apply_layer(self, number: int, x: Nodes, graph: SparseMatrix) -> Tensor:
        return self.layers[number](drop(x, self.dropout, self.training), graph)

    def _activation(self, u: Tensor) -> Tensor:
        return F.relu(u)


def _sizes(options: Any, hidden: int) -> list[tuple[int, int]]:
    """Features in and out of each layer."""
    ends = [options.in_features, *[hidden] * (options.layers - 1), options.num_classes]
    return list(pairwise(ends))


@dataclass(frozen=True, kw_only=True)
class GCNOptions(GraphOptions):
    layers: Layers = 2
    width: Width = 64


class GCNLayer(nn.Module):
    r""":math:`u \mapsto \hat A u W + b` with :math:`\hat A` of :func:`~evolvent.graphs.normalise`, ``"gcn"``."""

    def __init__(self, in_features: int, out_features: int, initialisations: int) -> None:
        super().__init__()
        self.linear = StackedLinear(in_features, out_features, initialisations, bias=False, glorot=True)
        self.bias = nn.Parameter(torch.zeros(initialisations * out_features))

    def forward(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        u = _gcn(graph) @ self.linear(x)
        return u + part_of(self.bias, u.shape[1])


def _gcn(graph: SparseMatrix) -> SparseMatrix:
    return kept_for(graph, "gcn", lambda g: normalise(g, "gcn"))


@register_family("gcn", GCNOptions, papers=("kipf2017",), recipe="diffresnet-table1-cora")
def gcn(options: GCNOptions) -> LayeredNetwork:
    r"""GCN: every layer averages over neighbours, then mixes features.

    .. math::
        u_{l+1} = ReLU(\hat A u_l W_l + b_l), \qquad \hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}

    Kipf and Welling 2017. With many layers all nodes become alike.

    Shape: x (N, in_features) and graph (N, N) to (N, num_classes), or (N, initialisations, num_classes).

    >>> import evolvent as ev
    >>> graph = SparseMatrix.from_dense(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> ev.create_model("gcn", in_features=4, num_classes=3)(torch.zeros(2, 4), graph).shape
    torch.Size([2, 3])
    """
    layers = [GCNLayer(*size, options.initialisations) for size in _sizes(options, options.width)]
    return LayeredNetwork(options, list(layers))


@dataclass(frozen=True, kw_only=True)
class SageOptions(GraphOptions):
    layers: Layers = 2
    width: Width = 64
    aggregator: Annotated[Literal["mean", "maxpool"], "what is gathered from neighbours"] = "mean"


class SageMean(nn.Module):
    r""":math:`u_i \mapsto W u_i + V \frac{1}{|N_i|} \sum_{j \in N_i} u_j + b`."""

    def __init__(self, in_features: int, out_features: int, initialisations: int) -> None:
        super().__init__()
        self.own = StackedLinear(in_features, out_features, initialisations)
        self.neighbours = StackedLinear(in_features, out_features, initialisations, bias=False)

    def forward(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        mean = kept_for(graph, "row", lambda g: normalise(g, "row"))
        return self.own(x) + mean @ self.neighbours(x)


class SageMaxPool(nn.Module):
    r""":math:`u_i \mapsto W u_i + V \max_{j \in N_i} ReLU(P u_j + p) + b`; the maximum over no neighbour is zero."""

    def __init__(self, in_features: int, out_features: int, initialisations: int, pooled: int) -> None:
        super().__init__()
        self.pool = StackedLinear(in_features, pooled, initialisations)
        self.own = StackedLinear(in_features, out_features, initialisations)
        self.neighbours = StackedLinear(pooled, out_features, initialisations, bias=False)

    def forward(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        pooled = _NeighbourMaximum.apply(F.relu(self.pool(x)), graph)
        return self.own(x) + self.neighbours(pooled)  # pyright: ignore[reportArgumentType]


class _NeighbourMaximum(torch.autograd.Function):
    """The largest entry over each node's neighbours, zero at least; gradients are shared by equal ones."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, graph: SparseMatrix) -> Tensor:
        flat = u.flatten(1)
        rows, columns = graph.rows.to(u.device), graph.columns.to(u.device)
        gathered = flat[columns]
        largest = torch.zeros_like(flat).scatter_reduce(0, rows[:, None].expand_as(gathered), gathered, "amax")
        ctx.save_for_backward(flat, largest, rows, columns)
        return largest.view(u.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        flat, largest, rows, columns = ctx.saved_tensors
        g = gradients[0].flatten(1)
        attained = (flat[columns] == largest[rows]).to(g.dtype)
        ties = torch.zeros_like(g).index_add_(0, rows, attained)
        shares = attained.mul_((g / ties.clamp_min_(1))[rows])
        return torch.zeros_like(g).index_add_(0, columns, shares).view(gradients[0].shape), None


@register_family("graphsage", SageOptions, papers=("hamilton2017",), recipe="diffresnet-table1-cora")
def graphsage(options: SageOptions) -> LayeredNetwork:
    r"""GraphSAGE: every layer joins a node's own features with what it gathers from neighbours.

    .. math::
        u_i \leftarrow ReLU\Bigl(W u_i + V\, \frac{1}{|N_i|} \sum_{j \in N_i} u_j + b\Bigr) \quad \text{or} \quad
        ReLU\Bigl(W u_i + V \max_{j \in N_i} ReLU(P u_j + p) + b\Bigr)

    Hamilton, Ying, Leskovec 2017, with all neighbours instead of a sample. :math:`P` has ``width`` rows.

    Shape: x (N, in_features) and graph (N, N) to (N, num_classes), or (N, initialisations, num_classes).
    """
    sizes = _sizes(options, options.width)
    if options.aggregator == "mean":
        layers: list[nn.Module] = [SageMean(*size, options.initialisations) for size in sizes]
    else:
        layers = [SageMaxPool(*size, options.initialisations, options.width) for size in sizes]
    return LayeredNetwork(options, layers)


register_member("graphsage_maxpool", "graphsage", aggregator="maxpool")


@dataclass(frozen=True, kw_only=True)
class GATOptions(GraphOptions):
    layers: Layers = 2
    width: Annotated[Width, "features of each head"] = 8
    heads: Annotated[Count, "heads of attention in all layers but the last"] = 8
    dropout: Dropout = 0.6
    attention_dropout: Annotated[Dropout, "share of the edges dropped by each head in training"] = 0.6


class GATLayer(nn.Module):
    r"""Attention to neighbours and to oneself, for each head

    .. math::
        u_i \mapsto \sum_j \alpha_{ij} W u_j + b, \qquad
        \alpha_{ij} = softmax_j\, LeakyReLU(a \cdot W u_i + c \cdot W u_j)
    """

    def __init__(self, in_features: int, width: int, heads: int, initialisations: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.linear = StackedLinear(in_features, heads * width, initialisations, bias=False, glorot=True)
        bound = (6 / (heads + width)) ** 0.5
        size = (1, initialisations * heads * width)  # two axes, as other weights have
        self.centre, self.neighbour = (nn.Parameter(torch.empty(size).uniform_(-bound, bound)) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(initialisations * heads * width))

    def forward(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        loops = kept_for(graph, "loops", lambda g: g.plus_diagonal(1 - g.diagonal())).to(graph.device, graph.dtype)
        u = self.linear(x)  # (N, initialisations, heads * width)
        nodes, count, size = u.shape
        v = u.reshape(nodes, count * self.heads, size // self.heads)
        centre, neighbour = ((v * a.view(1, *v.shape[1:])).sum(dim=-1) for a in (self.centre, self.neighbour))
        shares = _attention(centre, neighbour, loops)
        shares = drop_entries(shares, self.dropout) if self.training and self.dropout else shares
        gathered = _EdgeSum.apply(shares.T.contiguous(), v, loops)
        return gathered.reshape(u.shape) + part_of(self.bias, count)  # pyright: ignore


def _attention(centre: Tensor, neighbour: Tensor, graph: SparseMatrix) -> Tensor:
    """Shares of each edge, which add up to 1 over the neighbours of a node: (N, heads) twice to (edges, heads)."""
    rows = graph.rows.to(centre.device)
    scores = F.leaky_relu(centre.index_select(0, rows) + neighbour.index_select(0, graph.columns.to(rows.device)), 0.2)
    lowest = torch.full_like(centre, -torch.inf)
    largest = lowest.scatter_reduce(0, rows[:, None].expand_as(scores), scores.detach(), "amax")
    weights = (scores - largest.index_select(0, rows)).exp()
    return weights / torch.zeros_like(centre).index_add(0, rows, weights).index_select(0, rows)


class _EdgeSum(torch.autograd.Function):
    r""":math:`y_i = \sum_j \alpha_{ij} u_j`, for each head a sparse product with weights that are learnt.

    Shape: shares (heads, edges), u (N, heads, width) to (N, heads, width).
    """

    @staticmethod
    def forward(ctx: Any, shares: Tensor, u: Tensor, graph: SparseMatrix) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(shares, u)
        heads = zip(shares, u.unbind(1), strict=True)
        return torch.stack([graph.with_values(share).product(v) for share, v in heads], dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        shares, u = ctx.saved_tensors
        graph, g = ctx.graph, gradients[0]
        _ = graph._flip  # found once, before entries are changed
        to_u = [graph.with_values(share).T.product(part) for share, part in zip(shares, g.unbind(1), strict=True)]
        to_shares = [
            (part.index_select(0, graph.rows) * v.index_select(0, graph.columns)).sum(dim=-1)
            for part, v in zip(g.unbind(1), u.unbind(1), strict=True)
        ]
        return torch.stack(to_shares), torch.stack(to_u, dim=1), None


class GAT(LayeredNetwork):
    """See :func:`gat`."""

    def _activation(self, u: Tensor) -> Tensor:
        return F.elu(u)


@register_family("gat", GATOptions, papers=("velickovic2018",), recipe="diffresnet-table1-cora")
def gat(options: GATOptions) -> GAT:
    r"""GAT: every layer averages over neighbours with weights that depend on their features.

    .. math::
        u_i \leftarrow ELU\Bigl(\sum_j \alpha_{ij} W u_j + b\Bigr), \qquad
        \alpha_{ij} = softmax_j\, LeakyReLU(a \cdot W u_i + c \cdot W u_j)

    Veličković et al. 2018; the heads of inner layers are concatenated, the last layer has one.

    Shape: x (N, in_features) and graph (N, N) to (N, num_classes), or (N, initialisations, num_classes).
    """
    sizes, count = _sizes(options, options.heads * options.width), options.initialisations
    *inner, last = sizes
    layers: list[nn.Module] = [
        GATLayer(size, options.width, options.heads, count, options.attention_dropout) for size, _ in inner
    ]
    return GAT(options, [*layers, GATLayer(*last, 1, count, options.attention_dropout)])


@dataclass(frozen=True, kw_only=True)
class APPNPOptions(GraphOptions):
    layers: Annotated[Count, "layers of the network that sees each node alone"] = 2
    width: Width = 64
    propagation_steps: Annotated[Count, "steps of propagation"] = 10
    alpha: Annotated[float, Gt(0), Le(1), "share of the start in every step"] = 0.1


class NodeLayer(nn.Module):
    """A linear layer that does not look at the graph."""

    def __init__(self, in_features: int, out_features: int, initialisations: int) -> None:
        super().__init__()
        self.linear = StackedLinear(in_features, out_features, initialisations)

    def forward(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        return self.linear(x)


class APPNP(LayeredNetwork):
    """See :func:`appnp`."""

    def __init__(self, options: APPNPOptions) -> None:
        sizes = _sizes(options, options.width)
        super().__init__(options, [NodeLayer(*size, options.initialisations) for size in sizes])
        self.propagation_steps, self.alpha = options.propagation_steps, options.alpha

    def _answers(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        start = u = super()._answers(x, graph)
        for _ in range(self.propagation_steps):
            u = torch.lerp(_gcn(graph) @ u, start, self.alpha)
        return u


@register_family("appnp", APPNPOptions, papers=("gasteiger2019",), recipe="diffresnet-table1-cora")
def appnp(options: APPNPOptions) -> APPNP:
    r"""APPNP: a network for each node alone, whose answers are propagated along the edges.

    .. math::
        u_{k+1} = (1 - \alpha) \hat A u_k + \alpha u_0, \qquad u_0 = W_2\, ReLU(W_1 x + b_1) + b_2

    Gasteiger, Bojchevski, Günnemann 2019: personalised PageRank in place of diffusion.

    Shape: x (N, in_features) and graph (N, N) to (N, num_classes), or (N, initialisations, num_classes).
    """
    return APPNP(options)
