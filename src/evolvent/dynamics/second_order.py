"""Second-order dynamics: features that oscillate, as waves do."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from evolvent.dynamics._contract import SecondOrderDynamics
from evolvent.dynamics.layers import LayerOptions, SymmetricLayer


class SecondOrder(SecondOrderDynamics):
    r"""A nonlinear wave equation, the hyperbolic network.

    .. math:: u'' = -K^\top \sigma\bigl(\mathcal N(K u) + b\bigr)

    Ruthotto and Haber 2020. With :math:`\sigma = s'` and no normalisation the energy
    :math:`\tfrac12 \|u'\|^2 + \sum s(K u + b)` is conserved. The leapfrog method steps it reversibly.

    Args:
        channels: number of channels.
        hidden: number of channels of :math:`K u`; as many as ``channels`` unless given.
        options: ``operator``, ``norm``, ``bias`` and ``activation``, see :class:`~evolvent.dynamics.SymmetricLayer`.

    Shape: a pair of (B, channels, ...), position and velocity, to the same; features enter at rest.

    >>> import torch
    >>> f = SecondOrder(4)
    >>> velocity, acceleration = f(0.0, f.enter(torch.randn(2, 4, 8, 8)))
    >>> velocity.count_nonzero().item(), acceleration.shape
    (0, torch.Size([2, 4, 8, 8]))
    """

    def __init__(self, channels: int, hidden: int | None = None, **options: Unpack[LayerOptions]) -> None:
        super().__init__()
        self.layer = SymmetricLayer(channels, hidden, **options)

    def acceleration(self, t: float, u: Tensor) -> Tensor:
        return -self.layer(u)

    def energy(self, u: Tensor, velocity: Tensor) -> Tensor:
        r""":math:`\tfrac12 \|u'\|^2 + \sum s(K u + b)` per sample; conserved in time where there is no
        normalisation."""
        return 0.5 * velocity.square().flatten(1).sum(1) + self.layer.potential(u)
