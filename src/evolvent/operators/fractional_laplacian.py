"""The fractional Laplacian between pixel strips."""

from __future__ import annotations

from torch import Tensor

from evolvent.operators.affinity import Power
from evolvent.operators.fractional_constants import fractional_constant
from evolvent.operators.nonlocal_diffusion import differences
from evolvent.operators.nonlocal_operator import Embedding, NonlocalOperator, Normaliser


class FractionalLaplacian(NonlocalOperator):
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
    """

    damping_sign = -1

    def __init__(
        self,
        channels: int,
        s: float = 0.5,
        *,
        dim: int = 2,
        scale: float = 1.0,
        embedding: Embedding = "pair",
        normaliser: Normaliser = "count",
        subsample: int = 1,
    ) -> None:
        constant = fractional_constant(dim, s)
        kernel = Power(dim + 2 * s, scale)
        super().__init__(channels, kernel, embedding=embedding, normaliser=normaliser, subsample=subsample)
        self.factor = constant

    def combine(self, x: Tensor, y: Tensor, mine: Tensor, others: Tensor) -> Tensor:
        return -differences(self, x, y, mine, others)
