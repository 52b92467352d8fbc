"""What powers of the Laplacian between pixel strips share: order, dimension, scale."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from evolvent.operators.affinity import Affinity
from evolvent.operators.nonlocal_operator import Embedding, NonlocalOperator, Normaliser


class FractionalKernel(NamedTuple):
    """A kernel and the constant before its integral."""

    affinity: Affinity
    constant: float


class FractionalOperator(NonlocalOperator):
    r"""A power of the Laplacian with distances between embedded pixel strips.

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
        kernel = self.kernel(s, dim, scale)
        super().__init__(channels, kernel.affinity, embedding=embedding, normaliser=normaliser, subsample=subsample)
        self.factor = kernel.constant

    @staticmethod
    @abstractmethod
    def kernel(s: float, dim: int, scale: float) -> FractionalKernel:
        """The kernel of order ``s``; an order out of range is refused."""
