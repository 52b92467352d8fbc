"""Hamiltonian dynamics of two coupled feature halves."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor

from evolvent.dynamics._contract import PartitionedDynamics
from evolvent.dynamics.layers import LayerOptions, SymmetricLayer


class Hamiltonian(PartitionedDynamics):
    r"""Two feature halves that exchange energy.

    .. math:: y' = K_1^\top \sigma(K_1 z + b_1), \qquad z' = -K_2^\top \sigma(K_2 y + b_2)

    Chang et al. 2018, and eq. 2.5 of Bohn, Griebel, Kannan 2021. With :math:`\sigma = s'` and no normalisation,
    :math:`H(y, z) = \sum s(K_1 z + b_1) + \sum s(K_2 y + b_2)` is conserved.

    Args:
        channels: channels of each half.
        options: ``operator``, ``norm``, ``bias`` and ``activation``, see :class:`~evolvent.dynamics.SymmetricLayer`;
            the parameter counts of Bohn et al. hold with full convolutions, without normalisation and bias.

    Shape: a pair of (B, channels, ...) to the same.
    """

    def __init__(self, channels: int, **options: Unpack[LayerOptions]) -> None:
        super().__init__()
        self.layer1 = SymmetricLayer(channels, **options)
        self.layer2 = SymmetricLayer(channels, **options)

    def dy(self, t: float, z: Tensor) -> Tensor:
        return self.layer1(z)

    def dz(self, t: float, y: Tensor) -> Tensor:
        return -self.layer2(y)

    def energy(self, y: Tensor, z: Tensor) -> Tensor:
        r""":math:`H(y, z)` per sample; conserved in time where there is no normalisation."""
        return self.layer1.potential(z) + self.layer2.potential(y)
