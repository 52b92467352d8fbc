"""Nonlocal dynamics: flows of integral operators, fractional diffusion, and the system behind a nonlocal block."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from evolvent._core.state import State
from evolvent.dynamics._contract import Dynamics, PartitionedDynamics, SplitDynamics
from evolvent.operators import DiffusionOperator, NonlocalOperator


class NonlocalFlow(Dynamics):
    r"""Diffusion between pixel strips, with the sign that damps.

    .. math:: u' = \mathcal L u, \qquad u' = -(-\Delta)^s u \qquad\text{or}\qquad u' = -(-\Delta)^{-s} u

    Eq. 3.3 and 3.4 of Bohn, Griebel, Kannan 2021. The kernel is that of :math:`u(t)`, so the equation is nonlinear. For
    :class:`~evolvent.operators.NonlocalDiffusion` with a symmetric, non-negative kernel energy and variance decay.

    Args:
        operator: any nonlocal operator.

    Shape: (B, channels, H, W) to the same.

    >>> import torch
    >>> from evolvent.operators import NonlocalDiffusion
    >>> NonlocalFlow(NonlocalDiffusion(4, "gaussian"))(0.0, torch.randn(2, 4, 5, 5)).shape
    torch.Size([2, 4, 5, 5])
    """

    def __init__(self, operator: NonlocalOperator) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, t: float, u: State) -> State:
        assert isinstance(u, Tensor)
        return self.operator.damping_sign * self.operator(u)


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


class NonlocalSystem(PartitionedDynamics):
    r"""Two copies of the features, which drive each other through a nonlocal operator.

    .. math:: V' = \mathcal K_1\bigl[\mathcal O_X U\bigr], \qquad U' = \mathcal K_2\bigl[\mathcal O_X V\bigr]

    Eq. 4.3 of Bohn, Griebel, Kannan 2021 for their :math:`W = -U`, with the kernel of the input :math:`X` throughout,
    as their eq. 4.1 and 4.2 have it. From :math:`V = U = X`, one Verlet step gives :math:`V = B_1` and
    :math:`U = B_2`.

    Args:
        first, second: :math:`\mathcal K_1` and :math:`\mathcal K_2`.
        act: :math:`\mathcal O_X`, such as :meth:`evolvent.operators.NonlocalOperator.at` gives.

    Shape: a pair of (B, C, H, W) to the same.
    """

    def __init__(self, first: nn.Module, second: nn.Module, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.act = first, second, act

    def dy(self, t: float, z: Tensor) -> Tensor:
        return self.first(self.act(z))

    def dz(self, t: float, y: Tensor) -> Tensor:
        return self.second(self.act(y))

    def enter(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return features, features

    def leave(self, u) -> Tensor:
        return u[1]
