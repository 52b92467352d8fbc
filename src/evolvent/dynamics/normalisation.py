"""Normalisations by kind."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from torch import Tensor, nn

from evolvent._core.errors import UnknownNameError

Norm: TypeAlias = Literal["batch", "group"]


def make_norm(kind: Norm | None, channels: int, space_axes: int) -> nn.Module | None:
    """Batch or group normalisation for features with so many axes of space, or none.

    Groups have eight channels where that divides them, else one group takes all.

    >>> make_norm("group", 32, 2)
    GroupNorm(4, 32, eps=1e-05, affine=True, bias=True)
    """
    if kind is None:
        return None
    if kind == "group":
        return nn.GroupNorm(channels // 8 if channels % 8 == 0 else 1, channels)
    if kind != "batch":
        raise UnknownNameError("norm", kind, get_args(Norm), f"There are {', '.join(get_args(Norm))} and None.")
    return nn.BatchNorm2d(channels) if space_axes == 2 else nn.BatchNorm1d(channels)


def normalise(k: Tensor, norm: nn.Module | None, bias: Tensor | None) -> Tensor:
    r""":math:`\mathcal N(k) + b`, with one number of :math:`b` for each channel; either may be left out."""
    k = k if norm is None else norm(k)
    return k if bias is None else k + bias.view(-1, *[1] * (k.ndim - 2))
