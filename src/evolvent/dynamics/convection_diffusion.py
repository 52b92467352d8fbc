"""Convection and diffusion: every node moves by itself, and towards those it is connected with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_choice, check_not_negative, check_share, check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.masks import keep_mask
from evolvent._core.randomness import derive_seed
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
        dropout: share of the features that is dropped in training with each step of diffusion; 0 for the exponential
            flow, which is one step.
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
        if dropout and flow == "exponential" and gamma * diffusion_steps > 0:
            raise ConfigError(
                f"the exponential flow is one step, in which nothing can be dropped, got dropout {dropout:g}. Set "
                "dropout to 0, or flow to explicit or implicit."
            )
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
        if not (self.dropout and self.training):
            time, count, unstable = self.time * h, self.diffusion_steps, self.allow_unstable
            return self.diffusion.flow(u, time, self.flow, count, allow_unstable=unstable, unit=h)
        if self.flow == "explicit":
            if not torch.compiler.is_compiling():
                self.diffusion.check_step(step, self.diffusion_steps, self.allow_unstable, unit=h)
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
    r"""Steps :math:`u \leftarrow m \odot P u / (1 - p)` with random masks :math:`m` that drop a share :math:`p`.

    For each feature the same in distribution as a product and :func:`torch.nn.functional.dropout` in turn: all masks
    that meet a feature are independent. Features share their draws: the mask of a later step is that of the first one,
    shifted by some features, so that one draw serves all steps. Some features at a time go through all steps, while
    they are in the processor's cache. Nothing is kept for the backward pass, which draws the masks again.

    Args:
        u: features of the nodes.
        propagator: :math:`P`.
        steps: how many.
        dropout: :math:`p`, to within 1/65536.
        drop_first: drop before each product instead of after it.

    Shape: (N, ...) to the same.
    """
    seed = int(torch.randint(2**62, ()))
    return _DroppingFlow.apply(u, propagator, _Masks(seed, steps, dropout), drop_first)  # pyright: ignore[reportReturnType]


class _DroppingFlow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, propagator: SparseMatrix, masks: _Masks, drop_first: bool) -> Tensor:
        ctx.propagator, ctx.masks, ctx.drop_first = propagator, masks, drop_first
        return _masked_products(u, propagator, masks, drop_first, backward=False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        found = _masked_products(gradients[0], ctx.propagator.T, ctx.masks, not ctx.drop_first, backward=True)
        return found, None, None, None


_PANEL = 256  # features that go through all steps together


def _masked_products(u: Tensor, matrix: SparseMatrix, masks: _Masks, drop_first: bool, backward: bool) -> Tensor:
    matrix, flat = matrix.to(u.device, u.dtype), u.reshape(len(u), -1)
    found = torch.empty_like(flat)
    for number, panel in enumerate(flat.split(_PANEL, dim=1)):
        v, drawn = panel.clone(memory_format=torch.contiguous_format), masks.draw(panel, number)
        for step in reversed(range(masks.steps)) if backward else range(masks.steps):
            v = v.mul_(drawn(step)) if drop_first else v
            v = matrix.product(v)
            v = v if drop_first else v.mul_(drawn(step))
        found[:, number * _PANEL : number * _PANEL + v.shape[1]] = v
    return found.view(u.shape)


@dataclass(frozen=True)
class _Masks:
    """Masks of all steps, a function of the seed: 0 for what is dropped, 1 / (1 - share) for what is kept."""

    seed: int
    steps: int
    share: float

    def draw(self, like: Tensor, number: int) -> Callable[[int], Tensor]:
        """The masks of one panel, by step.

        All are windows of one draw, whose starts differ by less than a row: so no two of them have an entry of one
        column in common. If there are more steps than columns, there are several draws.
        """
        rows, width = like.shape
        stride, draws = max(1, width // max(1, self.steps)), -(-self.steps // width)
        generator = torch.Generator(like.device).manual_seed(derive_seed(self.seed, number))
        form = {"dtype": like.dtype, "device": like.device, "generator": generator}
        pool = [keep_mask((rows * width + width,), self.share, **form) for _ in range(draws)]

        def mask(step: int) -> Tensor:
            start = step % width * stride
            return pool[step // width][start : start + rows * width].view(rows, width)

        return mask
