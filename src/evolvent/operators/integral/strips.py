"""Pixel strips, the channels of one pixel each, and which of them the others are compared with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent.operators.convolution import channels_are_neighbours


def strips(u: Tensor) -> Tensor:
    """The pixel strips of features, (B, C, H, W) to (B, H W, C)."""
    return u.flatten(2).mT


def maxima(u: Tensor, size: int) -> Tensor | None:
    """Pixels of the maxima over squares of ``size`` pixels, channel by channel, (B, M, C); None, for all, if that is 1.

    Squares at the lower and right edge may be smaller.
    """
    if size == 1:
        return None
    near = u.detach().contiguous(memory_format=torch.channels_last)  # where pooling is fast
    _, where = F.max_pool2d(near, size, ceil_mode=True, return_indices=True)
    return strips(where if channels_are_neighbours(u) else where.contiguous())


def pick(v: Tensor, where: Tensor | None) -> Tensor:
    """The strips at ``where``, (B, M, C), or all; those of images that lie channel after channel do so as well."""
    if where is None:
        return v
    return v.gather(1, where) if where.is_contiguous() else pick_columns(v.mT, where).mT


def pick_columns(u: Tensor, where: Tensor | None) -> Tensor:
    """The same for strips as columns, (B, C, N) to (B, C, M)."""
    return u if where is None else u.gather(2, where.mT)


def centre(v: Tensor, where: Tensor | None) -> tuple[Tensor, Tensor]:
    """All strips, and those at ``where``, without their mean.

    A constant does not change differences between strips, but without it rounding is in proportion to what varies.
    """
    others = pick(v, where)
    constant = others.detach().mean(1, keepdim=True)
    mine = v - constant
    return mine, (mine if where is None else others - constant)
