r"""From labels of few nodes to classes of all: heat that spreads on a graph, and classes that compete for nodes.

.. math:: u_c' = -D^{-1} L\, u_c, \qquad u_c(0) = D^{-1} y_c

Each label is a unit of heat of its class :math:`c`. Heat and competition alternate, as in the scheme of Merriman, Bence
and Osher (1992) for reaction-diffusion equations: heat spreads for a time, then every node takes the class of which it
holds most, and becomes a source of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent._core.checks import check_not_negative, check_whole, described
from evolvent._core.errors import DataError, ShapeError
from evolvent.graphs import (
    SparseMatrix,
    check_graph,
    check_weights,
    conjugate_gradients,
    connected_components,
    subgraph,
)
from evolvent.graphs.solve import in_float64, is_stiff

Tell: TypeAlias = Callable[[float], None]
Stage: TypeAlias = Callable[[str], Tell]

_HARDLY = 1e-3  # share of its neighbours' degree below which a node is hardly connected
_LOOSE = 1e-2  # share of the median degree below which a node's heat counts by its degree
_FAINT = 1e-2  # share of the mean heat below which a node's heat may be rounding
_LONG = 100.0  # steps of a random walk that are enough, as a rule
_FARTHER = 16  # times as many steps where they are not,
_MANY = 0.05  # because they miss more than this share of the nodes
_FEW = 0.001  # share of nodes that change class, below which rounds end
_IN_CACHE = 50_000  # nodes up to which their order in memory does not matter
_LABELS_TOLERANCE = 1e-6  # of residuals: few sources, far nodes
_NODES_TOLERANCE = 1e-4  # sources everywhere


def label_flow(
    weights: SparseMatrix,
    labels: Tensor,
    *,
    time: float | None = None,
    rounds: int = 5,
    own_labels: float = 3.0,
    prior: Tensor | None = None,
    stage: Stage = lambda name: lambda share: None,
) -> Tensor:
    r"""The share of each class at each node of a graph.

    Heat spreads from the labels by one implicit step, :math:`(D + t L)\, u = Y`, and each class's heat is divided by
    its sum, :math:`\hat u`, so that no class wins by its place in the graph. Then, in every round, node :math:`i` takes
    its class :math:`c_i = \arg\max_c \hat u_{ic}`, labelled nodes theirs, and these classes spread as well,

    .. math:: (D + t L)\, v = Z, \quad Z_{ic} = [c_i = c], \qquad \hat u \leftarrow \frac{n \hat u_0 + m \hat v}{n + m},

    with :math:`\hat u_0` from the labels alone and :math:`n` labels per class on average: what the nodes have found
    counts as :math:`m` labels of each class, which is much beside one label and little beside fifty. Rounds end early
    if hardly any class changes. Nodes that the heat of labels does not reach within :math:`t` are reached in rounds
    before these, as nodes pass their classes on; all nodes of a component without label keep zeros.

    Args:
        weights: symmetric and not negative; loops have no effect.
        labels: heat of each class given to each node, 1 at labels.
        time: :math:`t`, in steps of a random walk; by default twice as many as there are nodes for each label, at most
            100; labels spread 16 times as long if their heat would miss more than one connected node in twenty. Times
            over 2,000 are computed in float64.
        rounds: how often nodes take their class and spread it.
        own_labels: :math:`m`.
        prior: expected share of each class, (C,); by default all the same.
        stage: told the name of each part of the work, gives what is told the share that is done.

    Shape: (N, N) and (N, C) to (N, C), rows of sum one or zero, in the precision of the weights.

    Raises:
        DataError: if the graph is directed or has negative weights, or there is no label.
        ShapeError: if the labels are not of this shape.

    >>> path = SparseMatrix.from_dense(torch.diag(torch.ones(4), 1) + torch.diag(torch.ones(4), -1))
    >>> labels = torch.zeros(5, 2)
    >>> labels[0, 0] = labels[4, 1] = 1
    >>> label_flow(path, labels).argmax(1).tolist()[:2], label_flow(path, labels).argmax(1).tolist()[3:]
    ([0, 0], [1, 1])
    """
    _check(weights, labels)
    check_whole(0, rounds=rounds)
    check_not_negative(own_labels=own_labels, time=0 if time is None else time)
    return spread_labels(weights, labels.to(weights.dtype), time, rounds, own_labels, prior, stage)


def spread_labels(
    weights: SparseMatrix,
    labels: Tensor,
    time: float | None,
    rounds: int,
    own_labels: float,
    prior: Tensor | None,
    stage: Stage,
) -> Tensor:
    """:func:`label_flow` of weights and labels that are known to be right, and of one precision."""
    kind = weights.dtype
    if time is not None and is_stiff(time):
        weights, labels = in_float64(weights), labels.double()
    weights, order = _neighbours_together(weights)
    flow = _Competition(_Heat(weights), labels[order], time, own_labels, prior, stage)
    found, known = flow.from_labels, flow.near_labels
    while bool((beyond := flow.heat.next_to(known)).any()):
        found, known = flow.reach(found, known, beyond)
    classes = flow.classes(found, known)
    for number in range(rounds):
        found = flow.compete(classes, f"classes compete, round {number + 1} of {rounds}")[0] * known[:, None]
        before, classes = classes, flow.classes(found, known)
        if int((classes != before).sum()) < _FEW * len(classes):
            break
    found = _rows_of_sum_one(found * flow.prior).to(kind)
    return torch.empty_like(found).index_copy_(0, order, found)


def _check(weights: SparseMatrix, labels: Tensor) -> None:
    check_graph(weights)
    check_weights(weights)
    if not weights.is_symmetric:
        raise DataError(
            "labels spread on undirected graphs, but this one is directed. Make it undirected: "
            "evolvent.graphs.undirected(weights)."
        )
    if not isinstance(labels, Tensor) or labels.ndim != 2 or len(labels) != len(weights):
        raise ShapeError(
            f"labels on a graph of {len(weights)} nodes are a tensor ({len(weights)}, classes), 1 in the column of a "
            f"node's class, got {described(labels)}."
        )
    if not bool((labels >= 0).all()) or not bool(labels.any()):
        raise DataError("labels must be numbers of at least 0, one of them larger; some are negative or NaN, or all 0.")


class _Competition:
    """Heat of labels, and nodes that take classes and spread them."""

    def __init__(
        self, heat: _Heat, labels: Tensor, time: float | None, own_labels: float, prior: Tensor | None, stage: Stage
    ) -> None:
        self.heat, self.labels, self.stage = heat, labels, stage
        self.time = self.far_time = min(_LONG, 2 * len(labels) / labels.sum().item()) if time is None else time
        self.prior = labels.new_ones(labels.shape[1]) if prior is None else prior.to(labels)
        self.share = own_labels / (own_labels + labels.sum().item() / labels.shape[1])
        self.from_labels, self.near_labels = self._labels_spread("labels spread")
        beyond = heat.next_to(self.near_labels)
        if time is None and bool(beyond.any()) and self.misses_many(self.near_labels):
            self.far_time *= _FARTHER
            self.from_labels, self.near_labels = self._labels_spread("labels spread farther")

    def _labels_spread(self, name: str) -> tuple[Tensor, Tensor]:
        spread = self.heat(self.labels, self.far_time, _LABELS_TOLERANCE, self.stage(name))
        near = self.heat.reaches(spread) | self.labels.any(dim=1)
        return self.heat.per_class(spread * near[:, None]), near

    @cached_property
    def connected(self) -> Tensor:
        """Which nodes are connected with a label."""
        component = connected_components(self.heat.weights).to(self.labels.device)
        return torch.isin(component, component[self.labels.any(dim=1)])

    def misses_many(self, known: Tensor) -> bool:
        """Whether a large part of the nodes that are connected with labels is not known."""
        return bool((self.connected & ~known).sum() > _MANY * self.connected.sum())

    def classes(self, found: Tensor, known: Tensor) -> Tensor:
        """The class of each node, int64 (N,), -1 where none is known; labels stay."""
        best = torch.where(self.labels.any(dim=1), self.labels.argmax(dim=1), (found * self.prior).argmax(dim=1))
        return torch.where(known, best, -1)

    def compete(self, classes: Tensor, name: str, time: float | None = None) -> tuple[Tensor, Tensor]:
        """What is found when nodes spread their classes, and which nodes their heat reaches."""
        sources = _one_hot(classes, self.labels)
        sources = sources / sources.sum(dim=0).clamp_min(1)
        spread = self.heat(sources, time or self.time, _NODES_TOLERANCE, self.stage(name))
        return torch.lerp(self.from_labels, self.heat.per_class(spread), self.share), self.heat.reaches(spread)

    def reach(self, found: Tensor, known: Tensor, beyond: Tensor) -> tuple[Tensor, Tensor]:
        """Go on to nodes that heat has not reached; ``beyond`` are the next ones."""
        classes, reached = self.classes(found, known), known
        if self.misses_many(known):
            name = f"labels reach {int(known.sum()):,} of {len(known):,} nodes"
            found, heated = self.compete(classes, name, self.far_time)
            reached = known | heated
        if torch.equal(reached, known):  # few are left, or hardly any heat passes: they take the classes beside them
            beside = self.heat.weights.product(_one_hot(classes, self.labels))
            found, reached = torch.where(beyond[:, None], beside, found), known | beyond
        return found * reached[:, None], reached


class _Heat:
    r"""One implicit step of the heat flow of a graph, :math:`(D + t L)^{-1}` by conjugate gradients.

    A node of little degree :math:`d` turns a unit of heat into :math:`1 / d`, more than all others together if it is
    hardly connected. Such nodes have the mean of their neighbours instead; what they send to these is as it was. Where
    many nodes are loosely connected, each counts in sums over the graph by its degree.
    """

    def __init__(self, weights: SparseMatrix) -> None:
        loops = weights.rows == weights.columns
        self.weights = weights.with_values(weights.values.masked_fill(loops, 0))
        self.degrees = self.weights.row_sums()
        connected = self.degrees[self.degrees > 0]
        usual = connected.median() if len(connected) else self.degrees.new_ones(())
        around = self.weights.product(self.degrees.clamp_max(usual)[:, None])[:, 0]  # hubs are no measure of others
        around = around / self.degrees.clamp_min(torch.finfo(around.dtype).tiny)
        self.hardly = self.degrees < _HARDLY * around
        self.counted = torch.where(self.degrees < _LOOSE * usual, self.degrees / usual, 1)

    def __call__(self, sources: Tensor, time: float, tolerance: float, tell: Tell) -> Tensor:
        diagonal = torch.where(self.degrees > 0, (1 + time) * self.degrees, 1)  # a node alone keeps its heat

        def product(u: Tensor) -> Tensor:
            return self.weights.product(u).mul_(-time).addcmul_(diagonal[:, None], u)

        found = conjugate_gradients(product, sources, diagonal, tolerance=tolerance, tell=tell)
        found.clamp_(min=0)  # as the solution is, but for rounding
        return self._passed_on(found) if bool(self.hardly.any()) else found

    def _passed_on(self, heat: Tensor) -> Tensor:
        """Heat with that of hardly connected nodes replaced by the mean of their neighbours, nearer nodes first."""
        left = self.hardly
        while bool(left.any()):
            has = (~left).to(heat.dtype)[:, None]
            share = self.weights.product(has)
            now = left[:, None] & (share > 0)
            if not bool(now.any()):
                break  # a part of the graph without other nodes
            means = self.weights.product(heat * has) / share.clamp_min(torch.finfo(heat.dtype).tiny)
            heat, left = torch.where(now, means, heat), left & ~now[:, 0]
        return heat

    def per_class(self, heat: Tensor) -> Tensor:
        """Each class's heat divided by its sum."""
        return heat / (self.counted @ heat).clamp_min(torch.finfo(heat.dtype).tiny)

    def reaches(self, heat: Tensor) -> Tensor:
        """Which nodes have more than hardly any heat."""
        total = heat.sum(dim=1)
        return total > _FAINT * (self.counted @ total) / self.counted.sum().clamp_min(1)

    def next_to(self, nodes: Tensor) -> Tensor:
        """Which nodes are not among these, but next to one of them."""
        return (self.weights.product(nodes.to(self.weights.dtype)[:, None])[:, 0] > 0) & ~nodes


def _neighbours_together(weights: SparseMatrix) -> tuple[SparseMatrix, Tensor]:
    """A large graph with its nodes in an order in which neighbours are near in memory, and that order."""
    if len(weights) <= _IN_CACHE:
        return weights, torch.arange(len(weights), device=weights.device)
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    found = reverse_cuthill_mckee(weights.to_scipy(), symmetric_mode=True)
    order = torch.from_numpy(found.astype("int64")).to(weights.device)
    return subgraph(weights, order), order


def _one_hot(classes: Tensor, like: Tensor) -> Tensor:
    """1 in the column of each node's class; zeros where none is known."""
    return F.one_hot(classes + 1, like.shape[1] + 1)[:, 1:].to(like)


def _rows_of_sum_one(found: Tensor) -> Tensor:
    total = found.sum(dim=1, keepdim=True)
    return torch.where(total > 0, found / total.clamp_min(torch.finfo(found.dtype).tiny), 0)
