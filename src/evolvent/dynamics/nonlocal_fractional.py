"""Reaction and fractional diffusion in space."""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.dynamics._contract import Dynamics, SplitDynamics
from evolvent.operators import DiffusionOperator


class FractionalDiffusion(SplitDynamics):
    r"""A power of the Laplacian as the stiff part, and any right-hand side beside it.

    .. math:: u' = f(t, u) - (-\Delta)^{\pm s} u

    Methods for split dynamics treat the power implicitly, by its Fourier symbol, at any step size.

    Args:
        operator: :class:`~evolvent.operators.SpatialFractionalLaplacian`,
            :class:`~evolvent.operators.SpatialInverseLaplacian` or another diffusion of images.
        reaction: :math:`f`; zero unless given.

    Shape: (B, C, H, W) to the same.

    >>> from evolvent.operators import SpatialFractionalLaplacian
    >>> flow = FractionalDiffusion(SpatialFractionalLaplacian(0.5))
    >>> flow(0.0, torch.ones(1, 1, 4, 4)).abs().max().item()
    0.0
    """

    def __init__(self, operator: DiffusionOperator, reaction: Dynamics | None = None) -> None:
        super().__init__()
        self.operator = operator
        self.reaction = reaction

    def explicit(self, t: float, u: Tensor) -> Tensor:
        return torch.zeros_like(u) if self.reaction is None else self.reaction(t, u)

    def stiff(self, t: float, u: Tensor) -> Tensor:
        return self.operator(u)

    def solve(self, t: float, u: Tensor, h: float) -> Tensor:
        return self.operator.solve(u, h)
