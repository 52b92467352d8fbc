"""What is asked of a solution at points: an equation, a value, or a condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolvent.equations import parameter_jacobian

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Asked:
    """A quantity that should have given values at points.

    Attributes:
        part: of the objective, by the name of its weight.
        points: (N, coordinates).
        quantity: of a network and points, (N, components).
        target: what it should be, (N, components); 0 if None.
        shares: factors of the squares of the points, (N,); 1 if None.
    """

    part: str
    points: Tensor
    quantity: Callable[[Function, Tensor], Tensor]
    target: Tensor | None = None
    shares: Tensor | None = None

    def off(self, network: Function) -> Tensor:
        """By how much the quantity is off, (N, components)."""
        found = self.quantity(network, self.points)
        return found if self.target is None else found - self.target

    def mean_square(self, network: Function) -> Tensor:
        """The part of the objective, without its weight."""
        squares = self.off(network).square()
        return squares.mean() if self.shares is None else (self.shares * squares.mean(1)).mean()

    def factors(self, off: Tensor) -> Tensor:
        """What makes of ``off`` residuals whose squares add up to the mean square, (N, 1) or a number."""
        each = torch.ones_like(off[:, :1]) if self.shares is None else self.shares[:, None].to(off)
        return (each / off.numel()).sqrt()

    def jacobian(self, network: nn.Module, components: int) -> Tensor:
        """Derivatives of the quantity in the network's parameters, (N, components, parameters)."""

        def component(k: int) -> Callable[[Function, Tensor], Tensor]:
            return lambda f, x: self.quantity(f, x)[:, k : k + 1]

        return torch.stack([parameter_jacobian(network, component(k), self.points) for k in range(components)], dim=1)
