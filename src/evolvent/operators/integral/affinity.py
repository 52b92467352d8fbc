r"""How alike two pixel strips are: kernels :math:`\omega(x, y)`, summed over all pairs without a matrix of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent._core.checks import check_positive
from evolvent.operators.integral.pair_sum import nearest, pair_sum
from evolvent.operators.integral.strips import centre, pick, pick_columns

EULER_GAMMA = 0.57721566490153286


class Pairs(NamedTuple):
    """What a kernel makes once of the strips that it compares, for all sums over them."""

    x: Tensor  # (B, N, D)
    y: Tensor  # (B, M, D)
    factor: Tensor | float = 1.0  # of the sums, (B, 1, 1)
    offset: Tensor | float = 0.0  # inside the kernel, (B, 1, 1)
    row: Tensor | None = None  # sums of the kernel, where they come cheap, (B, N, 1)


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
        check_positive(scale=scale)
        self.scale = float(scale)

    @abstractmethod
    def pairs(self, x: Tensor, y: Tensor, factor: float = 1.0) -> Pairs:
        """Strips (B, N, D) and (B, M, D), made ready for sums of ``factor`` times the kernel."""

    def pairs_for_means(self, x: Tensor, y: Tensor, channels: int) -> Pairs:
        """The same for means of strips with ``channels`` channels."""
        return self.pairs(x, y)

    @abstractmethod
    def sums(self, pairs: Pairs, v: Tensor) -> PairSums:
        """Weighted sums of ``v``, (B, M, C), and row sums."""

    def weighted(self, pairs: Pairs, v: Tensor) -> Tensor:
        r""":math:`\sum_j \omega_{ij} v_j`."""
        return self.sums(pairs, v).weighted

    def differences(self, pairs: Pairs, v: Tensor, where: Tensor | None) -> Tensor:
        r""":math:`\sum_j \omega_{ij} (v_j - v_i)` for strips (B, N, C), with :math:`v_j` those at ``where``."""
        mine, others = centre(v, where)
        weighted, row = self.sums(pairs, others)
        return weighted - row * mine

    def means(self, pairs: Pairs, v: Tensor) -> Tensor:
        r""":math:`\sum_j \omega_{ij} v_j / \sum_j \omega_{ij}`, zero where the row sum is."""
        weighted, row = self.sums(pairs, v)
        return safe_divide(weighted, row)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(scale={self.scale:g})"


class DotProduct(Affinity):
    r""":math:`\omega(x, y) = \lambda\, x^\top y`, by :math:`\sum_j (x_i^\top y_j)\, v_j = (\sum_j v_j y_j^\top)\, x_i`.

    The change of order is exact and costs :math:`O(N D C)` instead of :math:`O(N^2 (D + C))`. Sums come out as the
    strips lie in memory, channel after channel or pixel after pixel. Strips are not centred, which would cost one more
    pass over them all: rounding is in proportion to their size, not to their differences.
    """

    def pairs(self, x: Tensor, y: Tensor, factor: float = 1.0) -> Pairs:
        y = self.scale * factor * y
        return Pairs(x, y, row=(y.sum(1, keepdim=True) @ x.mT).mT)

    def sums(self, pairs: Pairs, v: Tensor) -> PairSums:
        assert pairs.row is not None
        return PairSums(self.weighted(pairs, v), pairs.row)

    def weighted(self, pairs: Pairs, v: Tensor) -> Tensor:
        flow = v.mT @ pairs.y
        return pairs.x @ flow.mT if pairs.x.is_contiguous() else (flow @ pairs.x.mT).mT

    def differences(self, pairs: Pairs, v: Tensor, where: Tensor | None) -> Tensor:
        assert pairs.row is not None
        lost = -pairs.row
        if v.is_contiguous():
            return (lost * v).baddbmm_(pairs.x, pairs.y.mT @ pick(v, where))
        u = v.mT  # the same, as the strips lie in memory: gradients of one tensor then add up in place
        return (lost.mT * u).baddbmm_(pick_columns(u, where) @ pairs.y, pairs.x.mT).mT


class Gaussian(Affinity):
    r""":math:`\omega(x, y) = e^{\lambda x^\top y}`.

    Means are softmax attention and go to PyTorch's fused kernel, which wants equal widths, where zeros change nothing,
    and channels that are neighbours in memory. Its backward pass on CPUs takes one thread for each head, so groups of
    rows stand as heads. Sums are made in blocks, with the exponent saturated at half the logarithm of the largest
    number.
    """

    def pairs(self, x: Tensor, y: Tensor, factor: float = 1.0) -> Pairs:
        return Pairs(self.scale * x, y, factor)

    def sums(self, pairs: Pairs, v: Tensor) -> PairSums:
        sums = pairs.factor * pair_sum(pairs.x, pairs.y, _with_ones(v), v.new_zeros(v.shape[0], 1, 1), "exp", 1.0)
        return PairSums(sums[..., :-1], sums[..., -1:])

    def pairs_for_means(self, x: Tensor, y: Tensor, channels: int) -> Pairs:
        return Pairs(_widened(self.scale * x, channels), _widened(y, channels))

    def means(self, pairs: Pairs, v: Tensor) -> Tensor:
        heads = _heads(v.device, v.shape[0], pairs.x.shape[1])
        k, wide = (part.unsqueeze(1).expand(-1, heads, -1, -1) for part in (pairs.y, _widened(v, pairs.y.shape[-1])))
        means = F.scaled_dot_product_attention(pairs.x.unflatten(1, (heads, -1)), k, wide, scale=1.0)
        return means.flatten(1, 2)[..., : v.shape[-1]]


class _DistanceKernel(Affinity):
    """A kernel of the distance, evaluated in blocks.

    Squared distances are one product of widened vectors, made in float64 so that strips of float32 that differ in their
    last digits still do. What is nearer than rounding can tell, or than the kernel can be represented at, counts as
    distance zero, where the kernel is 0: the safe divide and safe logarithm of Bohn et al., sections 4.3 and 4.4.
    """

    kind: str
    decay: float  # the kernel's derivative grows like the distance to the minus (decay + 1)

    def pairs(self, x: Tensor, y: Tensor, factor: float = 1.0) -> Pairs:
        wide = x.dtype if x.device.type == "mps" else torch.float64  # Apple's GPUs have no float64
        centre = y.detach().mean(1, keepdim=True)
        low, x, y = x.dtype, (x - centre).to(wide), (y - centre).to(wide)
        x2, y2 = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
        rounding = 16 * torch.finfo(wide).eps * (x2.detach().amax(1, keepdim=True) + y2.detach().amax(1, keepdim=True))
        smallest = (torch.finfo(low).max * 1e-4) ** (-2 / (self.decay + 2))
        unit = rounding.clamp(min=smallest) / nearest(low, self.decay)  # of squared distances
        q = torch.cat([-2 * x, x2, torch.ones_like(x2)], dim=-1) / unit
        k = torch.cat([y, torch.ones_like(y2), y2], dim=-1)
        return Pairs(q, k, factor * self.factor(unit).to(low), self.offset(unit).to(low))

    @abstractmethod
    def factor(self, unit: Tensor) -> Tensor:
        """What multiplies the sums for the kernel's own scale and for squared distances in ``unit``."""

    def offset(self, unit: Tensor) -> Tensor:
        """What is added inside the kernel for the same reason."""
        return torch.zeros_like(unit)

    def weighted(self, pairs: Pairs, v: Tensor) -> Tensor:
        assert isinstance(pairs.offset, Tensor)
        return pairs.factor * pair_sum(pairs.x, pairs.y, v, pairs.offset, self.kind, self.decay)

    def sums(self, pairs: Pairs, v: Tensor) -> PairSums:
        sums = self.weighted(pairs, _with_ones(v))
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
        check_positive(exponent=exponent)
        self.exponent = self.decay = float(exponent)

    def factor(self, unit: Tensor) -> Tensor:
        return self.scale * unit.pow(-self.exponent / 2)

    def __repr__(self) -> str:
        return f"Power({self.exponent:g}, scale={self.scale:g})"


class Logarithm(_DistanceKernel):
    r""":math:`\omega(x, y) = -2 \lambda \log \|x - y\| - \gamma`, and 0 where :math:`x = y`."""

    kind = "log"
    decay = 0.0

    def factor(self, unit: Tensor) -> Tensor:
        return torch.full_like(unit, -self.scale)  # the block takes the logarithm of the square

    def offset(self, unit: Tensor) -> Tensor:
        return unit.log() + EULER_GAMMA / self.scale


def safe_divide(a: Tensor, b: Tensor) -> Tensor:
    """:math:`a / b`, and 0 where :math:`b` is."""
    void = vanishes(b)
    return (a / b.masked_fill(void, 1.0)).masked_fill(void, 0.0)


def vanishes(b: Tensor) -> Tensor:
    """Where ``b`` is 0, or so small that quotients by it and their gradients may overflow."""
    return b.detach().abs() <= 1e8 * torch.finfo(b.dtype).tiny


def _with_ones(v: Tensor) -> Tensor:
    """One more channel of ones, whose weighted sum is the row sum."""
    return F.pad(v, (0, 1), value=1.0)


def _widened(x: Tensor, width: int) -> Tensor:
    """With zeros up to ``width`` channels, which are neighbours in memory."""
    return F.pad(x, (0, max(0, width - x.shape[-1]))).contiguous()


def _heads(device: torch.device, batch: int, rows: int) -> int:
    """Equal groups of rows, as many as keep all threads of a CPU busy, or fewer."""
    wanted = -(-torch.get_num_threads() // batch) if device.type == "cpu" else 1
    return next(heads for heads in range(wanted, 0, -1) if rows % heads == 0)
