r"""How alike two pixel strips are: kernels :math:`\omega(x, y)`, summed over all pairs without a matrix of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent.operators.nonlocal_pair_sum import pair_sum


class PairSums(NamedTuple):
    r"""Weighted sums :math:`\sum_j \omega_{ij} v_j`, (B, N, C), and row sums :math:`\sum_j \omega_{ij}`, (B, N, 1)."""

    weighted: Tensor
    row: Tensor


class Affinity(ABC):
    r"""A kernel :math:`\omega` on pairs of vectors :math:`x_i` and :math:`y_j`.

    Each kind knows its cheapest exact evaluation; nobody has to choose one.

    Args:
        scale: :math:`\lambda > 0`.
    """

    def __init__(self, scale: float = 1.0) -> None:
        if not 0 < scale < math.inf:
            raise ConfigError(f"the kernel's scale lambda must be positive and finite, got {scale}. 1 is a start.")
        self.scale = float(scale)

    @abstractmethod
    def sums(self, x: Tensor, y: Tensor, v: Tensor) -> PairSums:
        """Weighted sums of ``v`` and row sums; ``x``, ``y``, ``v`` are (B, N, D), (B, M, D) and (B, M, C)."""

    def means(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        r""":math:`\sum_j \omega_{ij} v_j / \sum_j \omega_{ij}`, zero where the row sum is."""
        weighted, row = self.sums(x, y, v)
        return safe_divide(weighted, row)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(scale={self.scale:g})"


class DotProduct(Affinity):
    r""":math:`\omega(x, y) = \lambda\, x^\top y`, by :math:`\sum_j (x_i^\top y_j)\, v_j = (\sum_j v_j y_j^\top)\, x_i`.

    The change of order is exact and costs :math:`O(N D C)` instead of :math:`O(N^2 (D + C))`.
    """

    def sums(self, x: Tensor, y: Tensor, v: Tensor) -> PairSums:
        x = self.scale * x
        return PairSums(x @ (y.mT @ v), x @ y.sum(1, keepdim=True).mT)


class Gaussian(Affinity):
    r""":math:`\omega(x, y) = e^{\lambda x^\top y}`.

    Means are softmax attention and go to PyTorch's fused kernel, which wants equal widths, where zeros change nothing,
    and channels that are neighbours in memory. Sums are made in blocks, with the exponent saturated at half the
    logarithm of the largest number.
    """

    def sums(self, x: Tensor, y: Tensor, v: Tensor) -> PairSums:
        sums = pair_sum(self.scale * x, y, _with_ones(v), v.new_zeros(len(v), 1, 1), "exp", 1.0)
        return PairSums(sums[..., :-1], sums[..., -1:])

    def means(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        width = max(x.shape[-1], v.shape[-1])
        q, k, padded = (F.pad(part, (0, width - part.shape[-1])).contiguous().unsqueeze(1) for part in (x, y, v))
        return F.scaled_dot_product_attention(q, k, padded, scale=self.scale).squeeze(1)[..., : v.shape[-1]]


class _DistanceKernel(Affinity):
    """A kernel of the distance, evaluated in blocks.

    Squared distances are one product of widened vectors, made in float64 so that strips of float32 that differ in their
    last digits still do. What is nearer than rounding can tell, or than the kernel can be represented at, counts as
    distance zero, where the kernel is 0: the safe divide and safe logarithm of Bohn et al., sections 4.3 and 4.4.
    """

    kind: str
    decay: float  # the kernel's derivative grows like the distance to the minus (decay + 1)

    @property
    @abstractmethod
    def parameter(self) -> float:
        """What the blocks need to know."""

    def sums(self, x: Tensor, y: Tensor, v: Tensor) -> PairSums:
        wide = v.dtype if v.device.type == "mps" else torch.float64  # Apple's GPUs have no float64
        centre = y.detach().mean(1, keepdim=True)
        x, y = (x - centre).to(wide), (y - centre).to(wide)
        x2, y2 = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
        q = torch.cat([-2 * x, x2, torch.ones_like(x2)], dim=-1)
        k = torch.cat([y, torch.ones_like(y2), y2], dim=-1)
        rounding = 16 * torch.finfo(wide).eps * (x2.detach().amax(1, keepdim=True) + y2.detach().amax(1, keepdim=True))
        smallest = (torch.finfo(v.dtype).max * 1e-4) ** (-2 / (self.decay + 2))
        sums = pair_sum(q, k, _with_ones(v), rounding.clamp(min=smallest), self.kind, self.parameter)
        return PairSums(sums[..., :-1], sums[..., -1:])


class Power(_DistanceKernel):
    r""":math:`\omega(x, y) = \lambda\, \|x - y\|^{-a}`, and 0 where :math:`x = y`.

    Args:
        exponent: :math:`a > 0`.
        scale: :math:`\lambda`.
    """

    kind = "power"

    def __init__(self, exponent: float, scale: float = 1.0) -> None:
        super().__init__(scale)
        if not 0 < exponent < math.inf:
            raise ConfigError(f"the exponent of a power kernel must be positive and finite, got {exponent}.")
        self.exponent = self.decay = float(exponent)

    @property
    def parameter(self) -> float:
        return self.exponent

    def sums(self, x: Tensor, y: Tensor, v: Tensor) -> PairSums:
        weighted, row = super().sums(x, y, v)
        return PairSums(self.scale * weighted, self.scale * row)

    def __repr__(self) -> str:
        return f"Power({self.exponent:g}, scale={self.scale:g})"


class Logarithm(_DistanceKernel):
    r""":math:`\omega(x, y) = -2 \lambda \log \|x - y\| - \gamma`, and 0 where :math:`x = y`."""

    kind = "log"
    decay = 0.0

    @property
    def parameter(self) -> float:
        return self.scale  # the block takes the logarithm of the square


def safe_divide(a: Tensor, b: Tensor) -> Tensor:
    """:math:`a / b`, and 0 where :math:`b` is 0."""
    void = b == 0
    return (a / b.masked_fill(void, 1.0)).masked_fill(void, 0.0)


def _with_ones(v: Tensor) -> Tensor:
    """One more channel of ones, whose weighted sum is the row sum."""
    return F.pad(v, (0, 1), value=1.0)
