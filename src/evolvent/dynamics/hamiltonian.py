"""Hamiltonian dynamics of two coupled feature halves."""

from __future__ import annotations

from torch import Tensor, nn

from evolvent.dynamics._contract import PartitionedDynamics
from evolvent.dynamics.symmetric_layer import SymmetricLayer
from evolvent.operators import Convolution


class Hamiltonian(PartitionedDynamics):
    r"""Two feature halves that exchange energy.

    .. math:: y' = K_1^\top \sigma(K_1 z + b_1), \qquad z' = -K_2^\top \sigma(K_2 y + b_2)

    Chang et al. 2018, and eq. 2.5 of Bohn, Griebel, Kannan 2021. With :math:`\sigma = s'` and no normalisation,
    :math:`H(y, z) = \sum s(K_1 z + b_1) + \sum s(K_2 y + b_2)` is conserved.

    Args:
        channels: channels of each half.
        bias: learn :math:`b_1, b_2`; the paper's parameter counts hold without.
        batch_norm: normalise :math:`K_i u + b_i`; likewise off in the paper's counts.

    Shape: a pair of (B, channels, H, W) to the same.
    """

    def __init__(self, channels: int, *, bias: bool = False, batch_norm: bool = False) -> None:
        super().__init__()
        self.layer1 = _layer(channels, bias, batch_norm)
        self.layer2 = _layer(channels, bias, batch_norm)

    def dy(self, t: float, z: Tensor) -> Tensor:
        return self.layer1(z)

    def dz(self, t: float, y: Tensor) -> Tensor:
        return -self.layer2(y)

    def energy(self, y: Tensor, z: Tensor) -> Tensor:
        r""":math:`H(y, z)` per sample, with :math:`s(x) = \tfrac12 \max(x, 0)^2`; conserved without normalisation."""
        return self.layer1.potential(z) + self.layer2.potential(y)


def _layer(channels: int, bias: bool, batch_norm: bool) -> SymmetricLayer:
    norm = nn.BatchNorm2d(channels) if batch_norm else None
    return SymmetricLayer(Convolution(channels, channels), channels, bias=bias, norm=norm)
