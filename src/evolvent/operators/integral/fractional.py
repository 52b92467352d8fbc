"""Powers of the Laplacian between pixel strips, and the constants before their integrals."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent.groups import Field
from evolvent.operators.integral.affinity import Affinity, Logarithm, Pairs, Power
from evolvent.operators.integral.diffusion import differences
from evolvent.operators.integral.operator import Embedding, NonlocalOperator, Normaliser
from evolvent.operators.integral.strips import pick


def fractional_constant(dim: int, s: float) -> float:
    r""":math:`c_{n,s} = \dfrac{4^s\, \Gamma(n/2 + s)}{\pi^{n/2}\, |\Gamma(-s)|}` of eq. 3.5, for :math:`0 < s < 1`.

    >>> round(fractional_constant(1, 0.5) * math.pi, 12)
    1.0
    """
    check_order(s, dim, below=1.0, name="(-Delta)^s")
    return 4**s * math.gamma(dim / 2 + s) / (math.pi ** (dim / 2) * abs(math.gamma(-s)))


def riesz_constant(dim: int, s: float) -> float:
    r""":math:`c_{n,-s} = \dfrac{\Gamma(n/2 - s)}{4^s\, \pi^{n/2}\, \Gamma(s)}` of eq. 3.8, for :math:`0 < s < n/2`.

    >>> round(riesz_constant(3, 1.0) * 4 * math.pi, 12)
    1.0
    """
    check_order(s, dim, below=dim / 2, name="(-Delta)^-s")
    return math.gamma(dim / 2 - s) / (4**s * math.pi ** (dim / 2) * math.gamma(s))


def logarithmic_constant(dim: int) -> float:
    r""":math:`c_n = \dfrac{1}{(4\pi)^{n/2}\, \Gamma(n/2)}` of eq. 3.9, the case :math:`s = n/2`.

    >>> round(logarithmic_constant(2) * 4 * math.pi, 12)
    1.0
    """
    check_order(0.5, dim, below=1.0, name="the logarithmic kernel")
    return 1 / ((4 * math.pi) ** (dim / 2) * math.gamma(dim / 2))


def check_order(s: float, dim: int, below: float, name: str) -> None:
    """Refuse an order outside :math:`0 < s < below`, and a space without dimension."""
    if dim < 1:
        raise ConfigError(f"{name} acts in a space of dimension 1 or more, got {dim}. Images have dimension 2.")
    if not 0 < s < below:
        raise ConfigError(f"{name} needs 0 < s < {below:g} in dimension {dim}, got s = {s}. Choose s inside.")


class FractionalKernel(NamedTuple):
    """A kernel and the constant before its integral."""

    affinity: Affinity
    constant: float


class FractionalOperator(NonlocalOperator):
    r"""A power of the Laplacian with distances between embedded pixel strips.

    Args:
        channels: number of feature maps, or the fields that they are.
        s: the order.
        dim: :math:`n`, the dimension of space: 2 for images.
        scale: :math:`\lambda > 0`.
        embedding, normaliser, subsample: see :class:`~evolvent.operators.NonlocalOperator`.

    Shape: (B, channels, H, W) to the same.
    """

    damping_sign = -1

    def __init__(
        self,
        channels: int | Field,
        s: float = 0.5,
        *,
        dim: int = 2,
        scale: float = 1.0,
        embedding: Embedding = "pair",
        normaliser: Normaliser = "count",
        subsample: int = 1,
    ) -> None:
        kernel = self.kernel(s, dim, scale)
        super().__init__(channels, kernel.affinity, embedding=embedding, normaliser=normaliser, subsample=subsample)
        self.factor = kernel.constant

    @staticmethod
    @abstractmethod
    def kernel(s: float, dim: int, scale: float) -> FractionalKernel:
        """The kernel of order ``s``; an order out of range is refused."""


class FractionalLaplacian(FractionalOperator):
    r""":math:`(-\Delta)^s` with distances between embedded pixel strips, :math:`0 < s < 1`.

    .. math::
        ((-\Delta)^s v)_i = \frac{c_{n,s}}{\mathcal N_i}
        \sum_j \frac{\lambda}{\|\theta(X_i) - \phi(X_j)\|_2^{n + 2s}}\, (v_i - v_j), \qquad
        c_{n,s} = \frac{4^s\, \Gamma(n/2 + s)}{\pi^{n/2}\, |\Gamma(-s)|}

    Eq. 3.5 and 4.4 of Bohn, Griebel, Kannan 2021; terms of distance zero are left out. For positions instead of strips
    see :class:`~evolvent.operators.SpatialFractionalLaplacian`.

    Args:
        channels: number of feature maps, or the fields that they are.
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
        channels: number of feature maps, or the fields that they are.
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
