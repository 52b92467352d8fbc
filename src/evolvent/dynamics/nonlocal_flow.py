"""The flow of a nonlocal operator."""

from __future__ import annotations

from torch import Tensor

from evolvent._core.state import State
from evolvent.dynamics._contract import Dynamics
from evolvent.operators import NonlocalOperator


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
