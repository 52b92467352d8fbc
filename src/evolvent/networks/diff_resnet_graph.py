"""Diff-ResNet for the nodes of a graph: residual blocks that move every node, and diffusion between neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, cast

import torch
from annotated_types import Ge
from torch import Tensor, nn

from evolvent._core.state import State
from evolvent.dynamics import ConvectionDiffusion, Dynamics, on_graph
from evolvent.evolution import Evolution
from evolvent.graphs import Normalisation, SparseMatrix, normalise
from evolvent.integrators import Euler, LieTrotter
from evolvent.networks._graph_skeleton import GraphNetwork, GraphOptions, Nodes, StackedLinear, kept_for, part_of, twin
from evolvent.networks._options import Count, StepSize
from evolvent.networks._registry import register_family, register_member
from evolvent.operators.graph_diffusion import FlowMethod, GraphDiffusion


class NodeConvection(Dynamics):
    r"""Every node by itself, :math:`f(u) = ReLU(W u + b)`.

    Shape: (N, initialisations, width) to the same.
    """

    def __init__(self, width: int, initialisations: int) -> None:
        super().__init__()
        self.linear = StackedLinear(width, width, initialisations)
        self._sparse: SparseMatrix | None = None

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        return torch.relu_(self.linear(u if self._sparse is None else self._sparse))

    def of(self, x: SparseMatrix) -> NodeConvection:
        """A twin for the features ``x`` alone, whose product is a sparse one."""
        made = twin(self)
        made._sparse = x
        return made


@dataclass(frozen=True, kw_only=True)
class DiffResNetOptions(GraphOptions):
    width: Annotated[Count | None, "features of a learned linear map that comes first; None for no such map"] = None
    layers: Annotated[Count, "residual blocks, each followed by diffusion"] = 1
    step_size: StepSize = 1.0
    gamma: Annotated[float, Ge(0), "strength of a diffusion step, for a step size of 1"] = 0.25
    diffusion_steps: Annotated[int, Ge(0), "diffusion steps after each residual block"] = 20
    flow: Annotated[FlowMethod, "how the diffusion is followed"] = "explicit"
    normalisation: Annotated[Normalisation, "normalisation of the weights, before the Laplacian is made"] = "gcn"
    dropout: Annotated[float, Ge(0), "share of the features dropped with each diffusion step in training"] = 0.25
    dropout_place: Annotated[
        Literal["after", "before"], "relative to each diffusion step: as in the paper or its code"
    ] = "after"
    dropout_features: Annotated[
        Count | None, "features in which the last dropout is drawn and stands for that in all; None to draw it in all"
    ] = None
    allow_unstable: Annotated[bool, "run explicit steps that are too large for the graph, with a warning"] = False


class DiffResNetGraph(GraphNetwork):
    """See :func:`diff_resnet_graph`."""

    def __init__(self, options: DiffResNetOptions) -> None:
        super().__init__(options)
        width, count = options.width or options.in_features, options.initialisations
        self.lift = None if options.width is None else StackedLinear(options.in_features, width, count)
        blocks = [
            ConvectionDiffusion(
                NodeConvection(width, count),
                options.gamma,
                options.diffusion_steps,
                flow=options.flow,
                dropout=options.dropout,
                dropout_place=options.dropout_place,
                allow_unstable=options.allow_unstable,
            )
            for _ in range(options.layers)
        ]
        self.evolution = Evolution(blocks, LieTrotter(Euler()), step_size=options.step_size)
        self.head = StackedLinear(width, options.num_classes, count)
        self.normalisation: Normalisation = options.normalisation
        self.dropout_features = options.dropout_features

    def _answers(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        """The head commutes with diffusion, which is linear and keeps constants: it goes first unless features drop."""
        x = x if self.lift is None else self.lift(x)
        flow = self._flow(x, graph)
        last = cast(ConvectionDiffusion, flow.dynamics_at(-1))
        u = x if flow.steps == 1 else cast(Tensor, _without_last_step(flow)(self._start(x)))
        panels = self._moved_panels(u, cast(NodeConvection, last.convection).linear, flow.step_size)
        if not (self.training and last.dropout and last.time):
            return last.relax(0.0, self._read(panels), flow.step_size)
        if self.dropout_features is None:
            return self._read((k, last.relax(0.0, v, flow.step_size), weight) for k, v, weight in panels)
        return self._sampled(last, list(panels), flow.step_size)

    def _moved_panels(self, x: Nodes, linear: StackedLinear, h: float) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Some features at a time after the last residual block, of which initialisation, and the head's weights.

        Panels stay in the processor's cache, where all features of all initialisations would not even be kept by the
        allocator from one step to the next.
        """
        assert linear.bias is not None
        start, sizes = self._start(x), _panel_sizes(x.shape[-1])
        every = sizes * self.initialisations
        parts = zip(linear.weight.split(every, dim=1), linear.bias.split(every), strict=True)
        heads = [part.split(sizes) for part in part_of(self.head.weight, self.initialisations).unbind(1)]
        for k in range(self.initialisations):
            mine = x if len(x.shape) == 2 else start[:, k]
            for before, head, (weight, bias) in zip(start[:, k].split(sizes, dim=1), heads[k], parts, strict=False):
                yield k, before.add(torch.relu_(mine @ weight + bias), alpha=h), head

    def _read(self, panels: Iterable[tuple[int, Tensor, Tensor]]) -> Tensor:
        """The head's answers from panels of features."""
        found: list[Tensor | None] = [None] * self.initialisations
        for k, v, weight in panels:
            added = found[k]
            found[k] = v @ weight if added is None else added.addmm_(v, weight)
        assert self.head.bias is not None
        return torch.stack(cast(list[Tensor], found), dim=1) + part_of(self.head.bias, self.initialisations)

    def _sampled(self, last: ConvectionDiffusion, panels: list[tuple[int, Tensor, Tensor]], h: float) -> Tensor:
        r"""Answers with dropout in a random sample :math:`S` of :math:`B` of the :math:`F` features.

        With :math:`T_f` the diffusion with dropout of feature :math:`f`, whose mean is the plain diffusion :math:`P`,

        .. math:: P u C + \sqrt{F / B} \sum_{f \in S} (T_f - P)\, u_f C_f

        has the mean and, over the draws of :math:`S`, the covariance of :math:`\sum_f T_f u_f C_f`. The sample takes
        an equal share of every panel.
        """
        assert self.dropout_features is not None
        share = min(1.0, self.dropout_features / sum(v.shape[1] for k, v, _ in panels if k == 0))
        some = []
        for k, v, weight in panels:
            width = v.shape[1]
            rows = torch.randperm(width, device=v.device)[: max(1, round(share * width))]
            some.append((k, v.index_select(1, rows), weight.index_select(0, rows) * (width / len(rows)) ** 0.5))
        mean = self._read(panels) - self._read(some)
        time, count, unstable = last.time * h, last.diffusion_steps, last.allow_unstable
        mean = last.diffusion.flow(mean, time, last.flow, count, allow_unstable=unstable, unit=h)
        sampled = [v for _, v, _ in some]
        dropped = last.relax(0.0, torch.cat(sampled, dim=1), h).split([v.shape[1] for v in sampled], dim=1)
        return mean + self._read((k, v, weight) for (k, _, weight), v in zip(some, dropped, strict=True))

    def _features(self, x: Nodes, graph: SparseMatrix) -> Tensor:
        x = x if self.lift is None else self.lift(x)
        return cast(Tensor, self._flow(x, graph)(self._start(x)))

    def _start(self, x: Nodes) -> Tensor:
        dense = x.dense() if isinstance(x, SparseMatrix) else x
        return dense if dense.ndim == 3 else dense[:, None].expand(-1, self.initialisations, -1)

    def _flow(self, x: Nodes, graph: SparseMatrix) -> Evolution:
        """The evolution on this graph, its first product sparse if the features are."""
        name = f"diffusion {self.normalisation}"
        flow = on_graph(self.evolution, kept_for(graph, name, self._diffusion))
        if isinstance(x, SparseMatrix):
            first = cast(ConvectionDiffusion, flow.dynamics_at(0))
            first.convection = cast(NodeConvection, first.convection).of(x)
        return flow

    def _diffusion(self, graph: SparseMatrix) -> GraphDiffusion:
        return GraphDiffusion(normalise(graph, self.normalisation))


def _panel_sizes(width: int, most: int = 256) -> list[int]:
    return [most] * (width // most) + [width % most] * (width % most > 0)


def _without_last_step(flow: Evolution) -> Evolution:
    shorter = twin(flow)
    shorter.dynamics = nn.ModuleList(list(cast(nn.ModuleList, flow.dynamics))[:-1])
    shorter.steps = flow.steps - 1
    return shorter


@register_family("diff_resnet_graph", DiffResNetOptions, papers=("wang2024",), recipe="diffresnet-table1-cora")
def diff_resnet_graph(options: DiffResNetOptions) -> DiffResNetGraph:
    r"""Diff-ResNet for nodes: residual blocks, each followed by diffusion along the edges.

    .. math::
        u \leftarrow u + h\, ReLU(W_1 u + b_1), \qquad
        u \leftarrow Dropout(u - h \gamma L u) \;\; r \text{ times}, \qquad
        y = W_3 u + b_3

    Wang et al. 2024, appendix E.2.3, with :math:`h = 1`; the features keep their number, unless a linear map to
    ``width`` is learnt first. :math:`L = D - \hat A` is the Laplacian of the normalised graph, by default with
    :math:`\hat A` of GCN, as in their code. :math:`\gamma = 0` is a network that does not see the graph,
    ``resnet_graph``. Sparse features make the first product sparse.

    Shape: x (N, in_features) and graph (N, N) to (N, num_classes), or (N, initialisations, num_classes).

    >>> import evolvent as ev
    >>> graph = SparseMatrix.from_dense(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> ev.create_model("diff_resnet_graph", in_features=4, num_classes=3)(torch.zeros(2, 4), graph).shape
    torch.Size([2, 3])
    """
    return DiffResNetGraph(options)


register_member("resnet_graph", "diff_resnet_graph", gamma=0.0, diffusion_steps=0)
