"""The inverse fractional Laplacian between pixel strips: Riesz potentials and their logarithmic case."""

from __future__ import annotations

from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent.operators.affinity import Logarithm, Pairs, Power
from evolvent.operators.fractional_constants import logarithmic_constant, riesz_constant
from evolvent.operators.fractional_operator import FractionalKernel, FractionalOperator
from evolvent.operators.strips import pick


class InverseFractionalLaplacian(FractionalOperator):
    r""":math:`(-\Delta)^{-s}` with distances between embedded pixel strips, :math:`0 < s \le n/2`.

    .. math::
        ((-\Delta)^{-s} v)_i &= \frac{c_{n,-s}}{\mathcal N_i}
        \sum_j \frac{\lambda}{\|\theta(X_i) - \phi(X_j)\|_2^{n - 2s}}\, v_j, &
        c_{n,-s} &= \frac{\Gamma(n/2 - s)}{4^s\, \pi^{n/2}\, \Gamma(s)} \\
        ((-\Delta)^{-n/2} v)_i &= \frac{c_n}{\mathcal N_i}
        \sum_j \bigl(-2 \lambda \log \|\theta(X_i) - \phi(X_j)\|_2 - \gamma\bigr)\, v_j, &
        c_n &= \frac{1}{(4\pi)^{n/2}\, \Gamma(n/2)}

    Eq. 3.8, 3.9, 4.5 and 4.6 of Bohn, Griebel, Kannan 2021; terms of distance zero are left out. The logarithmic kernel
    changes sign, so that its row sums may come near zero. For positions instead of strips see
    :class:`~evolvent.operators.SpatialInverseLaplacian`.

    Args:
        channels: number of feature maps.
        s: the order; :math:`n/2` is the logarithmic kernel.
        dim: :math:`n`, the dimension of space: 2 for images.
        scale: :math:`\lambda > 0`.
        embedding, normaliser, subsample: see :class:`~evolvent.operators.NonlocalOperator`.

    Shape: (B, channels, H, W) to the same.

    >>> InverseFractionalLaplacian(4, 1.0)
    InverseFractionalLaplacian(
      4, Logarithm(scale=1), embedding='pair', normaliser='count', subsample=1
      (theta): Pointwise(4, 2, kernel_size=(1, 1), stride=(1, 1), bias=False)
      (phi): Pointwise(4, 2, kernel_size=(1, 1), stride=(1, 1), bias=False)
    )
    """

    @staticmethod
    def kernel(s: float, dim: int, scale: float) -> FractionalKernel:
        if not 0 < s <= dim / 2:
            raise ConfigError(
                f"(-Delta)^-s needs 0 < s <= {dim / 2:g} in dimension {dim}, got s = {s}. Choose s inside."
            )
        if 2 * s == dim:
            return FractionalKernel(constant=logarithmic_constant(dim), affinity=Logarithm(scale))
        return FractionalKernel(constant=riesz_constant(dim, s), affinity=Power(dim - 2 * s, scale))

    def combine(self, pairs: Pairs, v: Tensor, where: Tensor | None) -> Tensor:
        return (self.affinity.means if self.normaliser == "row_sum" else self.affinity.weighted)(pairs, pick(v, where))
