"""How far features are from their initial condition and from a governing equation (Kim et al. 2022, eqs. 7 and 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from evolvent._core.modes import evaluation_mode
from evolvent.equations import Derivatives, GoverningEquation
from evolvent.networks import COORDINATES, SolutionBlock, solution_blocks


class Entered(NamedTuple):
    """A block and the features that entered it, :math:`h(0)`."""

    block: SolutionBlock
    features: Tensor

    def some(self, count: int) -> Entered:
        """The first images alone, cut off from what made them, in single precision at least."""
        features = self.features.detach()[:count]
        exact = features if features.dtype == torch.float64 else features.float()
        return Entered(self.block, exact)


def observed(model: nn.Module, images: Tensor) -> tuple[Tensor, list[Entered]]:
    """The answers of a network, and what entered its solution blocks."""
    found: list[Entered] = []

    def note(block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(block, SolutionBlock)
        found.append(Entered(block, inputs[0]))

    hooks = [block.register_forward_pre_hook(note) for block in solution_blocks(model)]
    try:
        return model(images), found
    finally:
        for hook in hooks:
            hook.remove()


def initial_loss(entered: Sequence[Entered]) -> Tensor:
    r""":math:`L_I`, the mean of :math:`|f(h(0), d, 0) - h(0)|^2` over images, places, channels and blocks."""
    losses = []
    for block, features in entered:
        with _as_inferred(block, features):
            losses.append((block.initial(features) - features).square().mean())
    return torch.stack(losses).mean()


def governing_loss(equation: GoverningEquation, found: Sequence[Derivatives], fixed: bool) -> Tensor:
    r""":math:`L_G`, the mean of :math:`|h_t - \sum \alpha_{ij} h^i \partial_d^j h|^2`; ``fixed`` if not in alpha."""
    return torch.stack([equation.residual_of(u, fixed).square().mean() for u in found]).mean()


def derivatives(equation: GoverningEquation, entered: Sequence[Entered]) -> list[Derivatives]:
    """Features and their derivatives at the learned points, all that the equation needs, in one pass for each block.

    A coordinate is moved at all pixels at once, :math:`s \\mapsto f(h(0), D + s \\mathbf 1, t)`.
    """
    found = []
    for block, features in entered:
        points = [c.detach().to(features.dtype) for c in block.coordinates(features.shape[-2:])]
        with _as_inferred(block, features):
            at = dict(zip(COORDINATES, points, strict=True))
            found.append(equation.derivatives(lambda *c, block=block, h=features: block.field(h, *c), at))
    return found


@contextmanager
def _as_inferred(block: SolutionBlock, features: Tensor) -> Iterator[None]:
    """Statistics as they are used for inference, and no reduced precision.

    Statistics of a batch would remove a shift of the coordinates, and high derivatives need all digits.
    """
    with evaluation_mode(block), torch.autocast(features.device.type, enabled=False):
        yield


@contextmanager
def training_only(module: nn.Module, parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """What is computed inside has no gradients in other parameters of a module."""
    kept = set(map(id, parameters))
    frozen = [p for p in module.parameters() if p.requires_grad and id(p) not in kept]
    try:
        for parameter in frozen:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)
