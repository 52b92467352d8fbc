"""Convection and diffusion: every node moves by itself, and towards those it is connected with."""

from __future__ import annotations

import copy
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_choice, check_not_negative, check_share, check_whole
from evolvent._core.errors import ConfigError
from evolvent.dynamics._contract import Dynamics, SplitDynamics
from evolvent.graphs import SparseMatrix
from evolvent.operators.graph_diffusion import FlowMethod, GraphDiffusion

Module = TypeVar("Module", bound=nn.Module)


class ConvectionDiffusion(SplitDynamics):
    r"""Convection :math:`f` of each node, and diffusion between the nodes of a graph.

    .. math:: u_i' = f(t, u_i) - r \gamma \sum_j w_{ij} (u_i - u_j)

    Wang et al., eq. (4). With :class:`~evolvent.integrators.LieTrotter` over Euler's method and :math:`h = 1` a step is
    eq. (6), a residual block, followed by :math:`r` times eq. (7),

    .. math:: u_i \leftarrow u_i - \gamma \sum_j w_{ij} (u_i - u_j)

    Other flows follow the diffusion for the same time :math:`r \gamma` and are stable for all of them. The graph is
    given when the dynamics are used: :func:`on_graph` makes them, or a whole evolution, for a graph.

    Args:
        convection: :math:`f`, which acts on each row by itself.
        gamma: strength :math:`\gamma` of one diffusion step; 0 for none.
        diffusion_steps: :math:`r`.
        flow: how the diffusion is followed; see :meth:`~evolvent.operators.GraphDiffusion.flow`.
        dropout: share of the features that is dropped in training with each step of diffusion.
        dropout_place: ``"after"`` each step, as the paper has it, or ``"before"``, as its code does.
        allow_unstable: run explicit steps that are too large for the graph, with a warning.

    Shape: (N, ...) to the same, N nodes.

    >>> from evolvent.dynamics import Residual
    >>> from evolvent.graphs import gaussian_affinity, normalise
    >>> x = torch.randn(50, 4)
    >>> W = normalise(gaussian_affinity(x, 5, sigma=1.0), "row")
    >>> f = ConvectionDiffusion(Residual(4, operator="dense", norm=None), gamma=0.5, diffusion_steps=3)
    >>> on_graph(f, W).relax(0.0, x, 1.0).shape
    torch.Size([50, 4])
    """

    def __init__(
        self,
        convection: Dynamics,
        gamma: float,
        diffusion_steps: int = 1,
        *,
        flow: FlowMethod = "explicit",
        dropout: float = 0.0,
        dropout_place: Literal["after", "before"] = "after",
        allow_unstable: bool = False,
    ) -> None:
        super().__init__()
        check_not_negative(gamma=gamma)
        check_whole(0, diffusion_steps=diffusion_steps)
        check_share(dropout=dropout)
        check_choice("dropout_place", dropout_place, ("after", "before"))
        if dropout and flow == "exponential":
            raise ConfigError("the exponential flow is one step, so nothing can be dropped in between. Leave dropout.")
        self.convection = convection
        self.gamma, self.diffusion_steps = float(gamma), diffusion_steps
        self.flow: FlowMethod = flow
        self.dropout, self.dropout_place = float(dropout), dropout_place
        self.allow_unstable = allow_unstable
        self._diffusion: GraphDiffusion | None = None

    @property
    def time(self) -> float:
        r""":math:`r \gamma`, for how long the diffusion is followed in a step of size 1."""
        return self.gamma * self.diffusion_steps

    @property
    def diffusion(self) -> GraphDiffusion:
        """The Laplacian of the graph that was given."""
        if self._diffusion is None:
            raise ConfigError("these dynamics need a graph. Use evolvent.dynamics.on_graph(evolution, weights).")
        return self._diffusion

    def explicit(self, t: float, u: Tensor) -> Tensor:
        moved = self.convection(t, u)
        assert isinstance(moved, Tensor)
        return moved

    def stiff(self, t: float, u: Tensor) -> Tensor:
        return self.time * self.diffusion(u)

    def solve(self, t: float, u: Tensor, h: float) -> Tensor:
        return self.diffusion.solve(u, self.time * h)

    def relax(self, t: float, u: Tensor, h: float) -> Tensor:
        r"""The diffusion of one step, with dropout between its :math:`r` parts in training."""
        if self.time == 0:
            return u
        step = self.gamma * h
        if self.flow == "explicit" and not torch.compiler.is_compiling():
            self.diffusion.check_step(step, self.diffusion_steps, self.allow_unstable)
        if not (self.dropout and self.training):
            return self.diffusion.flow(u, self.time * h, self.flow, self.diffusion_steps)
        if self.flow == "explicit":
            first = self.dropout_place == "before"
            return diffuse_and_drop(u, self.diffusion.propagator(step), self.diffusion_steps, self.dropout, first)
        for _ in range(self.diffusion_steps):
            u = F.dropout(u, self.dropout) if self.dropout_place == "before" else u
            u = self.diffusion.solve(u, step)
            u = F.dropout(u, self.dropout) if self.dropout_place == "after" else u
        return u

    def extra_repr(self) -> str:
        strength = f"gamma={self.gamma:g}, diffusion_steps={self.diffusion_steps}"
        return f"{strength}, flow={self.flow}, dropout={self.dropout:g}"


def on_graph(module: Module, graph: SparseMatrix | GraphDiffusion) -> Module:
    """A twin of a module whose dynamics diffuse on a graph; parameters and buffers are shared, nothing is changed.

    So one network may be used on several graphs at a time, and strategies that compute steps again in the backward
    pass do so on the graph of their forward pass.

    Args:
        module: dynamics, an evolution, or whatever holds such.
        graph: its weights, normalised as wished, or its Laplacian.
    """
    diffusion = graph if isinstance(graph, GraphDiffusion) else GraphDiffusion(graph)
    return _twin(module, diffusion)


def _twin(module: Module, diffusion: GraphDiffusion) -> Module:
    if not any(isinstance(part, ConvectionDiffusion) for part in module.modules()):
        return module
    twin = copy.copy(module)
    vars(twin)["_modules"] = {name: part and _twin(part, diffusion) for name, part in module._modules.items()}
    if isinstance(twin, ConvectionDiffusion):
        vars(twin)["_diffusion"] = diffusion
    return twin


def diffuse_and_drop(u: Tensor, propagator: SparseMatrix, steps: int, dropout: float, drop_first: bool) -> Tensor:
    r"""Steps :math:`u \leftarrow m \odot P u / (1 - p)` with fresh masks :math:`m` that drop a share :math:`p`.

    The same in distribution as a product and :func:`torch.nn.functional.dropout` in turn. Masks are drawn four to a
    random number and are all that is kept for the backward pass, since every step is linear.

    Args:
        u: features of the nodes.
        propagator: :math:`P`.
        steps: how many.
        dropout: :math:`p`, to within 1/65536.
        drop_first: drop before each product instead of after it.

    Shape: (N, ...) to the same.
    """
    return _DroppingFlow.apply(u, propagator, steps, dropout, drop_first)  # pyright: ignore[reportReturnType]


class _DroppingFlow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, propagator: SparseMatrix, steps: int, dropout: float, drop_first: bool) -> Tensor:
        scaled = propagator.with_values(propagator.values / (1 - dropout))
        masks = [_dropped(u, dropout) for _ in range(steps)]
        for mask in masks:
            u = u.masked_fill(mask, 0) if drop_first else u
            u = scaled.product(u)
            u = u if drop_first else u.masked_fill_(mask, 0)
        ctx.scaled, ctx.drop_first = scaled, drop_first
        ctx.save_for_backward(*masks)
        return u

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        g = gradients[0]
        for mask in reversed(ctx.saved_tensors):
            g = g if ctx.drop_first else g.masked_fill(mask, 0)
            g = ctx.scaled.T.product(g)
            g = g.masked_fill_(mask, 0) if ctx.drop_first else g
        return g, None, None, None, None


def _dropped(u: Tensor, share: float) -> Tensor:
    """A mask, True for the entries that are dropped."""
    if u.device.type != "cpu":
        return torch.rand_like(u, dtype=torch.float32) < share
    words = torch.empty(-(-u.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    threshold = round(share * 65536) - 32768
    return (words.view(torch.int16)[: u.numel()] < threshold).view(u.shape)
