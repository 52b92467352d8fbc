"""What a block that keeps the shape does to the size and the fineness of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class BlockDamping:
    """Ratios of features after a block to those before it; below one where the block damps."""

    norm: float
    variance: float  # over the pixels, of all channels
    high_frequency: float  # of the shares of the variance that lie at high frequencies
    change: float  # size of the difference, relative to the features before


@torch.no_grad()
def block_damping(block: Callable[[Tensor], Tensor], x: Tensor) -> BlockDamping:
    """Compare features before and after ``block``, all samples together.

    Args:
        block: takes and gives features of one shape; a module is run in the mode it is in.
        x: features, (B, C, H, W).

    >>> block_damping(lambda u: u / 2, torch.randn(1, 2, 8, 8)).variance
    0.25
    """
    y = block(x)
    return BlockDamping(
        norm=_ratio(y.norm(), x.norm()),
        variance=_ratio(_fluctuation(y).square().sum(), _fluctuation(x).square().sum()),
        high_frequency=_ratio(high_frequency_share(y), high_frequency_share(x)),
        change=_ratio((y - x).norm(), x.norm()),
    )


def high_frequency_share(u: Tensor) -> Tensor:
    r"""The share of the variance over the pixels at frequencies :math:`\max(|\xi|, |\eta|) > 1/4` cycles per pixel.

    That is beyond half of what the grid can hold. Zero for constant features.

    Args:
        u: (B, C, H, W).

    Shape: a number.

    >>> board = (torch.arange(8)[:, None] + torch.arange(8)) % 2
    >>> high_frequency_share(board.double()[None, None]).item()
    1.0
    """
    power = torch.fft.fft2(_fluctuation(u.to(torch.promote_types(u.dtype, torch.float32)))).abs().square()
    xi, eta = (torch.fft.fftfreq(size, device=u.device).abs() for size in u.shape[2:])
    high = torch.maximum(xi[:, None], eta) > 0.25
    whole = power.sum()
    return (power * high).sum() / whole if whole > 0 else whole


def _fluctuation(u: Tensor) -> Tensor:
    return u - u.mean((2, 3), keepdim=True)


def _ratio(after: Tensor, before: Tensor) -> float:
    """NaN where there was nothing before."""
    return (after / before).item() if before > 0 else float("nan")
