"""Parabolic dynamics: features that flow downhill, as heat does."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from evolvent._core.state import State
from evolvent.dynamics._contract import Dynamics
from evolvent.dynamics.layers import LayerOptions, SymmetricLayer


class Parabolic(Dynamics):
    r"""Gradient flow of a convex function, a nonlinear heat equation.

    .. math:: u' = -K^\top \sigma\bigl(\mathcal N(K u) + b\bigr)

    Ruthotto and Haber 2020. For monotone :math:`\sigma` and no normalisation two solutions never move apart,
    :math:`\|u(t) - v(t)\| \le \|u(0) - v(0)\|`; explicit Euler keeps this for
    :math:`h \le 2 / (\max \sigma' \, \|K\|^2)`.

    Args:
        channels: number of channels.
        hidden: number of channels of :math:`K u`; as many as ``channels`` unless given.
        options: ``operator``, ``norm``, ``bias`` and ``activation``, see :class:`~evolvent.dynamics.SymmetricLayer`.

    Shape: (B, channels, ...) to the same.

    >>> import torch
    >>> Parabolic(4)(0.0, torch.randn(2, 4, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(self, channels: int, hidden: int | None = None, **options: Unpack[LayerOptions]) -> None:
        super().__init__()
        self.layer = SymmetricLayer(channels, hidden, **options)

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        return -self.layer(u)

    def energy(self, u: Tensor) -> Tensor:
        r""":math:`\sum s(K u + b)` per sample, with :math:`s' = \sigma`; falls in time where there is no
        normalisation."""
        return self.layer.potential(u)
