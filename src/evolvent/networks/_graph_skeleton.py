"""What all networks for the nodes of a graph are made of: stacked weights, checks, and operators kept for a graph."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, DataError, ShapeError
from evolvent._core.masks import keep_mask
from evolvent.graphs import SparseMatrix, check_graph
from evolvent.networks._options import Count, Dropout, NetworkOptions, NumClasses
from evolvent.networks._registry import ModelSpec, create_model

Nodes = Tensor | SparseMatrix
"""Features of the nodes: (N, F) dense or sparse, the same for all initialisations, or (N, initialisations, F)."""

Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class GraphOptions(NetworkOptions):
    """The options that all networks for nodes share; sizes are those of Cora by default."""

    num_classes: NumClasses = 7
    in_features: Annotated[Count, "features of a node"] = 1433
    dropout: Dropout = 0.5
    initialisations: Annotated[Count, "networks that are trained together, each from its own initial weights"] = 1


class GraphNetwork(nn.Module):
    r"""A network that gives each node of a graph an answer, :math:`y = N(x, W)`.

    It may hold several initialisations, which differ in their weights alone and are evaluated in one pass over the
    graph: the last axis of every parameter counts the initialisations and, within each, its own entries. So a stack
    trained on the sum of the objectives is as many networks trained each on its own.

    Args:
        options: sizes and number of initialisations.

    Shape: x (N, in_features), dense or sparse, and the graph's weights (N, N) to (N, num_classes), or to
    (N, initialisations, num_classes) if there are several.
    """

    spec: ModelSpec

    def __init__(self, options: GraphOptions) -> None:
        super().__init__()
        self.in_features, self.num_classes = options.in_features, options.num_classes
        self.initialisations, self.dropout = options.initialisations, options.dropout

    def forward(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        """The answers; ``graph`` has the weights of the edges as they are, normalised in here once for each graph."""
        self._check(x, graph)
        return self._unstacked(self._answers(x, graph))

    def forward_features(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        """The features that the last linear map reads, (N, width) or (N, initialisations, width)."""
        self._check(x, graph)
        return self._unstacked(self._features(x, graph))

    def _answers(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        """(N, initialisations, num_classes)."""
        raise NotImplementedError

    def _features(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        """(N, initialisations, width)."""
        raise NotImplementedError

    def initialisation(self, number: int) -> nn.Module:
        """One of the networks of a stack, as a network of its own with a copy of its weights."""
        if not 0 <= number < self.initialisations:
            raise ConfigError(f"initialisations are 0 ... {self.initialisations - 1}, got {number}.")
        single = create_model(self.spec.name, **{**self.spec.options, "initialisations": 1}).train(self.training)
        parts = {name: part_of(p, self.initialisations)[..., number, :] for name, p in self.state_dict().items()}
        single.load_state_dict({name: part.clone() for name, part in parts.items()}, assign=True)
        return single

    def _unstacked(self, u: Tensor) -> Tensor:
        return u.squeeze(1) if self.initialisations == 1 else u

    def _check(self, x: Nodes, graph: SparseMatrix) -> None:
        check_graph(graph)
        if len(x.shape) != 2 or x.shape[1] != self.in_features:
            raise ShapeError(
                f"this network takes nodes of {self.in_features} features, as (nodes, features), got {tuple(x.shape)}. "
                "Create it with other in_features, or change the features."
            )
        if graph.shape != (len(x), len(x)):
            raise ShapeError(f"features of shape {tuple(x.shape)} need a graph of as many nodes, got {graph.shape}.")
        if not torch.compiler.is_compiling() and not _is_finite(x):
            raise DataError("some features of the nodes are NaN or infinite. Fill them in, or leave those nodes out.")


class OnGraph(nn.Module):
    """A network for nodes together with the graph that it is used on, so that features are all it takes.

    Args:
        network: for nodes.
        graph: weights of the edges.

    Shape: (N, in_features) to what the network gives.
    """

    def __init__(self, network: GraphNetwork, graph: SparseMatrix) -> None:
        super().__init__()
        self.network, self.graph = network, graph

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x, self.graph)


def part_of(parameter: Tensor, initialisations: int) -> Tensor:
    """A view of a parameter whose last axis is divided into (initialisations, entries)."""
    return parameter.unflatten(-1, (initialisations, -1))


class StackedLinear(nn.Module):
    r"""As many affine maps as there are initialisations, :math:`y_k = x_k W_k + b_k`.

    Args:
        in_features, out_features: of each map.
        initialisations: number of maps.
        bias: whether there is :math:`b_k`.
        glorot: draw weights uniformly as Glorot and Bengio do, and biases zero, instead of as torch's ``Linear`` does.

    Shape: (N, in_features), dense or sparse and the same for all maps, or (N, initialisations, in_features), to
    (N, initialisations, out_features).
    """

    def __init__(
        self, in_features: int, out_features: int, initialisations: int, bias: bool = True, glorot: bool = False
    ) -> None:
        super().__init__()
        self.initialisations = initialisations
        bound = math.sqrt(6 / (in_features + out_features)) if glorot else 1 / math.sqrt(in_features)
        size = initialisations * out_features
        self.weight = nn.Parameter(torch.empty(in_features, size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(size).uniform_(*((0, 0) if glorot else (-bound, bound)))) if bias else None

    def forward(self, x: Nodes) -> Tensor:
        y = self.product(x, self.weight)
        return y if self.bias is None else y + part_of(self.bias, self.initialisations)

    def product(self, x: Nodes, weight: Tensor) -> Tensor:
        """The linear maps with these weights."""
        if len(x.shape) == 2:
            return (x @ weight).unflatten(1, (self.initialisations, -1))
        assert isinstance(x, Tensor)
        if self.initialisations == 1:
            return (x[:, 0] @ weight)[:, None]
        return torch.bmm(x.transpose(0, 1), part_of(weight, self.initialisations).transpose(0, 1)).transpose(0, 1)


def drop(x: Nodes, share: float, training: bool) -> Nodes:
    """Dropout; of a sparse matrix among its entries, which all initialisations share."""
    if not (training and share):
        return x
    if isinstance(x, SparseMatrix):
        _ = x._flip  # found once, before entries are changed
        return x.with_values(drop_entries(x.values, share))
    return drop_entries(x, share)


def drop_entries(u: Tensor, share: float) -> Tensor:
    """Dropout of a tensor, faster on a CPU than torch's own."""
    return u * keep_mask(tuple(u.shape), share, dtype=u.dtype, device=u.device)


_KEPT: WeakKeyDictionary[SparseMatrix, dict[str, Any]] = WeakKeyDictionary()


def kept_for(graph: SparseMatrix, name: str, make: Callable[[SparseMatrix], Made]) -> Made:
    """What was made of a graph under a name, made once for as long as the graph exists."""
    found = _KEPT.setdefault(graph, {})
    if name not in found:
        found[name] = make(graph)
    return found[name]


def _is_finite(x: Nodes) -> bool:
    """Whether all features on a CPU are numbers; elsewhere the question would make the processor wait."""
    if isinstance(x, SparseMatrix):
        return kept_for(x, "finite", lambda kept: bool(kept.values.isfinite().all()))
    if x.device.type != "cpu":
        return True
    return bool(x.detach().sum().isfinite()) or bool(x.isfinite().all())  # a sum costs a tenth, but may overflow


def twin(module: nn.Module) -> Any:
    """A copy of a module that shares its parameters and parts; attributes and parts may be set on it."""
    made = copy.copy(module)
    vars(made)["_modules"] = dict(module._modules)
    return made
