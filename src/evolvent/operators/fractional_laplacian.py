"""The fractional Laplacian between pixel strips."""

from __future__ import annotations

from torch import Tensor

from evolvent.operators.affinity import Pairs, Power
from evolvent.operators.fractional_constants import fractional_constant
from evolvent.operators.fractional_operator import FractionalKernel, FractionalOperator
from evolvent.operators.nonlocal_diffusion import differences


class FractionalLaplacian(FractionalOperator):
    r""":math:`(-\Delta)^s` with distances between embedded pixel strips, :math:`0 < s < 1`.

    .. math::
        ((-\Delta)^s v)_i = \frac{c_{n,s}}{\mathcal N_i}
        \sum_j \frac{\lambda}{\|\theta(X_i) - \phi(X_j)\|_2^{n + 2s}}\, (v_i - v_j), \qquad
        c_{n,s} = \frac{4^s\, \Gamma(n/2 + s)}{\pi^{n/2}\, |\Gamma(-s)|}

    Eq. 3.5 and 4.4 of Bohn, Griebel, Kannan 2021; terms of distance zero are left out. For positions instead of strips
    see :class:`~evolvent.operators.SpatialFractionalLaplacian`.

    Args:
        channels: number of feature maps.
        s: the order.
        dim: :math:`n`, the dimension of space: 2 for images.
        scale: :math:`\lambda > 0`.
        embedding, normaliser, subsample: see :class:`~evolvent.operators.NonlocalOperator`.

    Shape: (B, channels, H, W) to the same.

    >>> import torch
    >>> FractionalLaplacian(4)(torch.ones(1, 4, 3, 3)).abs().max().item()  # constants do not diffuse
    0.0
    """

    @staticmethod
    def kernel(s: float, dim: int, scale: float) -> FractionalKernel:
        return FractionalKernel(constant=fractional_constant(dim, s), affinity=Power(dim + 2 * s, scale))

    def combine(self, pairs: Pairs, v: Tensor, where: Tensor | None) -> Tensor:
        return -differences(self, pairs, v, where)
