"""Diff-ResNet for points: each block moves every point by itself, then lets it diffuse towards its neighbours.

Wang, Dou, Bao, Shi 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

from evolvent._core.errors import ShapeError
from evolvent.dynamics import ConvectionDiffusion, TwoLayer, on_graph
from evolvent.evolution import Evolution
from evolvent.graphs import Normalisation, SparseMatrix, dense_affinity, gaussian_affinity, normalise, undirected
from evolvent.integrators import Euler, LieTrotter
from evolvent.networks._options import Count, NetworkOptions, NumClasses
from evolvent.networks._registry import register_family, register_member
from evolvent.networks.points import PointNetwork
from evolvent.operators.dense_diffusion import DenseDiffusion
from evolvent.operators.graph_diffusion import FlowMethod, GraphDiffusion

_REMEMBERED = 4  # graphs: of training, watched and test points, and one more
_FRAMES = 8  # states shown of the diffusion in each block


class BatchGraph:
    """Makes the graph of a batch of points, and remembers it: with all points in each batch it is made once.

    A batch of fewer than ``n_top`` points keeps all weights, and a single point has no neighbours.

    Args:
        n_top: weights kept for each point.
        sigma: width of the Gaussian.
        include_self: whether a point counts among its ``n_top``.
        normalisation: of the weights; ``"gcn"`` makes them undirected first.

    >>> graph = BatchGraph(5, 0.5)
    >>> x = torch.randn(20, 2)
    >>> graph(x) is graph(x.clone())
    True
    """

    def __init__(
        self, n_top: int, sigma: float, *, include_self: bool = True, normalisation: Normalisation = "row"
    ) -> None:
        self.n_top, self.sigma, self.include_self = n_top, sigma, include_self
        self.normalisation: Normalisation = normalisation
        self._known: list[tuple[Tensor, GraphDiffusion]] = []

    def __call__(self, x: Tensor) -> GraphDiffusion:
        for points, diffusion in self._known:
            if points.dtype == x.dtype and points.device == x.device and torch.equal(points, x):
                return diffusion
        made = GraphDiffusion(self.weights(x.detach()))
        self._known = [(x.detach().clone(), made), *self._known[: _REMEMBERED - 1]]
        return made

    def weights(self, x: Tensor) -> SparseMatrix:
        """The normalised weights between points (N, d), (N, N)."""
        if len(x) < 2:
            return SparseMatrix.from_dense(x.new_zeros(len(x), len(x)))
        found = gaussian_affinity(x, self._kept(len(x)), sigma=self.sigma, include_self=self.include_self)
        return normalise(undirected(found) if self.normalisation == "gcn" else found, self.normalisation)

    def _kept(self, count: int) -> int:
        return min(self.n_top, count if self.include_self else count - 1)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_known": []}


class DenseBatchGraph(BatchGraph):
    """Makes the graph of a batch as a dense matrix, afresh each time, by operations that every exporter knows."""

    def __call__(self, x: Tensor) -> GraphDiffusion:
        kept = self._kept(x.shape[0])
        found = dense_affinity(x.detach(), kept, sigma=self.sigma, include_self=self.include_self)
        weights = undirected(found) if self.normalisation == "gcn" else found
        return DenseDiffusion(normalise(weights, self.normalisation))


class DiffusionNetwork(PointNetwork):
    """A network for points that diffuse on the graph of their batch.

    What it says of a point depends on the points beside it, unless there is no diffusion.

    Args:
        evolution: whose steps are :class:`~evolvent.dynamics.ConvectionDiffusion`.
        head: from features to the answer.
        graph_of: makes the graph of a batch.
        in_features: coordinates of a point.

    Shape: (N, in_features) to what the head gives.
    """

    def __init__(self, evolution: Evolution, head: nn.Module, graph_of: BatchGraph, *, in_features: int) -> None:
        super().__init__(nn.Identity(), evolution, head, in_features=in_features)
        self.graph_of = graph_of
        self.couples_batch = any(f.time > 0 for f in self._blocks(evolution))

    def forward(self, x: Tensor, graph: SparseMatrix | GraphDiffusion | None = None) -> Tensor:
        """The answers.

        Args:
            x: points.
            graph: between them, normalised; that of the batch itself unless given.
        """
        return self.head(self.forward_features(x, graph))

    def forward_features(self, x: Tensor, graph: SparseMatrix | GraphDiffusion | None = None) -> Tensor:
        return self.evolution_on(x, graph)(x)

    def evolution_on(self, x: Tensor, graph: SparseMatrix | GraphDiffusion | None = None) -> Evolution:
        """The evolution on the graph of a batch, or on a given one."""
        self._check(x)
        if not self.couples_batch:
            return self.evolution
        if graph is None:
            return on_graph(self.evolution, self.graph_of(x))
        nodes = len(graph.laplacian if isinstance(graph, GraphDiffusion) else graph)
        if nodes != len(x):
            raise ShapeError(f"{len(x)} points need a graph of as many nodes, got one of {nodes}.")
        return on_graph(self.evolution, graph)

    def prepare_for_export(self) -> None:
        """From now on make the graph of a batch by operations that exporters know."""
        known = self.graph_of
        self.graph_of = DenseBatchGraph(
            known.n_top, known.sigma, include_self=known.include_self, normalisation=known.normalisation
        )

    def trajectories(
        self, x: Tensor, graph: SparseMatrix | GraphDiffusion | None = None, frames: int = _FRAMES
    ) -> list[list[Tensor]]:
        """For the one evolution, the features after the convection of each block and several times in its diffusion.

        The number of diffusion steps between two states grows geometrically, since differences decay so.

        Args:
            x: points.
            graph: between them; that of the batch itself unless given.
            frames: states of each block's diffusion, at most.
        """
        evolution = self.evolution_on(x, graph)
        path, h = [x], evolution.step_size
        for j, f in enumerate(self._blocks(evolution)):
            moved = path[-1] + h * f.explicit(j * h, path[-1])
            path.append(moved)
            if f.time > 0:
                counts = _spread(f.diffusion_steps, frames)
                unstable = f.allow_unstable
                path += [f.diffusion.flow(moved, f.gamma * h * k, f.flow, k, allow_unstable=unstable) for k in counts]
        return [path]

    def moments(self, frames: int = _FRAMES) -> list[str]:
        """What each state of :meth:`trajectories` is: after so many diffusion steps of which block."""
        found, blocks = ["points"], self._blocks(self.evolution)
        for j, f in enumerate(blocks):
            block = f"block {j + 1}: " if len(blocks) > 1 else ""
            counts = _spread(f.diffusion_steps, frames) if f.time > 0 else []
            found += [f"{block}convection", *(f"{block}{k:,} diffusion step{'s' * (k > 1)}" for k in counts)]
        return found

    @staticmethod
    def _blocks(evolution: Evolution) -> list[Any]:
        return [evolution.dynamics_at(j) for j in range(evolution.steps)]


def _spread(last: int, count: int) -> list[int]:
    """Whole numbers from 1 to ``last`` in about equal ratios."""
    return sorted({round(last ** (k / max(1, count - 1))) for k in range(count)} | {last})


@dataclass(frozen=True, kw_only=True)
class DiffResNetOptions(NetworkOptions):
    num_classes: NumClasses = 2
    in_features: Annotated[Count, "coordinates of a point"] = 2
    width: Annotated[Count | None, "hidden units of the convection; as many as coordinates if null"] = None
    blocks: Annotated[Count, "blocks s, each of a convection and its diffusion steps"] = 1
    gamma: Annotated[float, Ge(0), Lt(math.inf), "strength of one diffusion step; 0 for none"] = 1.0
    diffusion_steps: Annotated[int, Ge(0), "diffusion steps r of each block"] = 60
    n_top: Annotated[int, Ge(2), "weights kept for each point"] = 25
    sigma: Annotated[float, Gt(0), Lt(math.inf), "width of the Gaussian between points"] = 0.5
    include_self: Annotated[bool, "whether a point counts among its n_top"] = True
    normalisation: Annotated[Normalisation, "normalisation of the weights: row, symmetric or gcn"] = "row"
    flow: Annotated[FlowMethod, "how diffusion is followed: explicit, implicit or exponential"] = "explicit"
    allow_unstable: Annotated[bool, "run explicit steps that are too large for the graph, with a warning"] = False


@register_family("diff_resnet", DiffResNetOptions, papers=("wang2024",), recipe="diffresnet-figure4")
def diff_resnet(options: DiffResNetOptions) -> DiffusionNetwork:
    r"""Diff-ResNet for points: residual blocks, each followed by diffusion between the points of the batch.

    .. math::
        u_i^{k+1/2} = u_i^k + f(u_i^k), \qquad
        u_i \leftarrow u_i - \gamma \sum_j w_{ij} (u_i - u_j) \;\; (r \text{ times}), \qquad
        y_i = C u_i^s + c

    Wang et al. 2024, eqs. (5) to (7) and section E.1.2, with :math:`f` a hidden layer of ReLUs. The weights are those
    of the batch (their Remark 1), made from the points and not from their features; the default is the reading of their
    code, rows of sum one with the point itself among its :math:`n_{top}`. For two coordinates and two classes there are
    18 parameters. Defaults are those of the paper's moons.

    Shape: (N, in_features) to (N, num_classes).

    >>> import evolvent as ev
    >>> model = ev.create_model("diff_resnet")
    >>> model(torch.randn(100, 2)).shape, sum(p.numel() for p in model.parameters())
    (torch.Size([100, 2]), 18)
    """
    steps = [
        ConvectionDiffusion(
            TwoLayer(options.in_features, options.width),
            options.gamma,
            options.diffusion_steps,
            flow=options.flow,
            allow_unstable=options.allow_unstable,
        )
        for _ in range(options.blocks)
    ]
    graph_of = BatchGraph(
        options.n_top, options.sigma, include_self=options.include_self, normalisation=options.normalisation
    )
    head = nn.Linear(options.in_features, options.num_classes)
    return DiffusionNetwork(Evolution(steps, LieTrotter(Euler())), head, graph_of, in_features=options.in_features)


register_member("no_diff_resnet", "diff_resnet", gamma=0.0)
