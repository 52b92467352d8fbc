"""Fewer pixels, orientations or symmetries: pooling of fields, and fields of a smaller group."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_choice, check_whole
from evolvent._core.errors import ShapeError
from evolvent.groups import Field, Group, scalars
from evolvent.operators.differential.constants import ConstantsModule
from evolvent.operators.differential.field_checks import (
    check_fields,
    check_moves_channels,
    check_orthogonal,
    warn_of_uneven_squares,
)

OrientationMeasure: TypeAlias = Literal["max", "mean", "norm"]
PixelMeasure: TypeAlias = Literal["average", "max"]


class OrientationPooling(nn.Module):
    r"""One number for each field that the group does not change: its largest channel, their mean, or its length.

    Args:
        field: how features transform; the maximum and the mean are for fields whose channels are only moved.
        how: ``"max"``, ``"mean"`` or ``"norm"``.

    Shape: (B, field.channels, H, W) to (B, field.multiplicity, H, W).

    >>> from evolvent.groups import cyclic, regular_fields
    >>> pool = OrientationPooling(regular_fields(cyclic(8), 4))
    >>> pool(torch.randn(1, 32, 5, 5)).shape, str(pool.out_field)
    (torch.Size([1, 4, 5, 5]), '4 x trivial(C8)')
    """

    def __init__(self, field: Field, how: OrientationMeasure = "max") -> None:
        super().__init__()
        check_fields(self, field)
        self.how: OrientationMeasure = check_choice("orientation pooling", how, get_args(OrientationMeasure))
        if how == "norm":
            check_orthogonal(field, "OrientationPooling by 'norm'")
        else:
            check_moves_channels(field, f"OrientationPooling by {how!r}", "how='norm'")
        self.in_field, self.out_field = field, scalars(field.group, field.multiplicity)

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, "OrientationPooling")
        v = self.in_field.fibres(u)
        if self.how == "max":
            return _largest(v)
        return v.mean(dim=2) if self.how == "mean" else torch.linalg.vector_norm(v, dim=2)

    def extra_repr(self) -> str:
        return f"{self.in_field}, {self.how!r}"


def _largest(v: Tensor) -> Tensor:
    """The largest channel of each field; equal ones share the gradient.

    When compiled, one of them gets it: a backward pass that computes features again, and rounds them differently, finds
    none that equals the maximum.
    """
    return v.max(dim=2).values if torch.compiler.is_dynamo_compiling() else v.amax(dim=2)


class GroupRestriction(ConstantsModule):
    """The same features as fields of a smaller group, for layers that need to commute with that one only.

    Regular fields become several regular fields each, whose channels follow each other.

    Args:
        field: how features transform.
        subgroup: a group that is contained in the field's.

    Shape: (B, field.channels, H, W) to the same.

    >>> from evolvent.groups import cyclic, regular_fields
    >>> str(GroupRestriction(regular_fields(cyclic(8), 3), cyclic(4)).out_field)
    '6 x regular(C4)'
    """

    order: Tensor | None

    def __init__(self, field: Field, subgroup: Group) -> None:
        super().__init__()
        check_fields(self, field)
        self.in_field = field
        self.out_field, order = field.restricted(subgroup)
        if order is None:
            self.order = None
        else:
            self.add_constant("order", order.numpy())

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, "GroupRestriction")
        return u if self.order is None else u.index_select(1, self.order)

    def extra_repr(self) -> str:
        return f"{self.in_field} -> {self.out_field}"


class FieldPooling(nn.Module):
    r"""Average or maximum over squares of pixels.

    It commutes with quarter turns and mirrorings if the squares lie symmetrically on the map. They do where ``size``
    divides the sides. Elsewhere the last rows and columns are left out, with an :class:`EquivarianceWarning`, unless
    ``pad`` is set: then :math:`\lceil n / size \rceil` windows are centred along each side of :math:`n` pixels, at a
    distance of ``size``, and are one pixel wider than that where they cannot be centred otherwise. Pixels beyond
    the edge count neither for the maximum nor for the average.

    Args:
        field: how features transform; the maximum is for fields whose channels are only moved.
        size: pixels along the side of a square.
        how: ``"average"`` or ``"max"``.
        pad: lay windows symmetrically on every map.

    Shape: (B, field.channels, H, W) to (B, field.channels, H // size, W // size); rounded up with ``pad``.

    >>> from evolvent.groups import cyclic, regular_fields
    >>> pool = FieldPooling(regular_fields(cyclic(4), 1), pad=True)
    >>> pool(torch.randn(1, 4, 8, 8)).shape, pool(torch.randn(1, 4, 7, 7)).shape
    (torch.Size([1, 4, 4, 4]), torch.Size([1, 4, 4, 4]))
    """

    def __init__(self, field: Field, size: int = 2, how: PixelMeasure = "average", *, pad: bool = False) -> None:
        super().__init__()
        check_fields(self, field)
        check_whole(size=size)
        self.how: PixelMeasure = check_choice("pooling", how, get_args(PixelMeasure))
        if how == "max":
            check_moves_channels(field, "the maximum over pixels", "how='average'")
        self.in_field = self.out_field = field
        self.size, self.pad = size, pad

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, "FieldPooling")
        if not self.pad:
            self._check_size(u)
        windows = [_centred_windows(side, self.size) if self.pad else (self.size, 0) for side in u.shape[2:]]
        window, padding = ([pair[k] for pair in windows] for k in (0, 1))
        planes = u if u.is_contiguous() else u.transpose(0, 1)  # either way plane by plane, so memory keeps its order
        if self.how == "max":
            pooled = F.max_pool2d(planes, window, self.size, padding)
        else:
            pooled = F.avg_pool2d(planes, window, self.size, padding, count_include_pad=False)
        return pooled if planes is u else pooled.transpose(0, 1)

    def _check_size(self, u: Tensor) -> None:
        if self.size > min(u.shape[2:]):
            raise ShapeError(
                f"squares of {self.size} pixels do not fit into features of shape {tuple(u.shape)}. Use larger images, "
                "a smaller size or pad=True."
            )
        warn_of_uneven_squares(self, self.in_field, self.size, u.shape[2:], "or use pad=True")

    def extra_repr(self) -> str:
        return f"{self.in_field}, size={self.size}, {self.how!r}{', pad=True' if self.pad else ''}"


def _centred_windows(side: int, size: int) -> tuple[int, int]:
    """The width of windows at a distance of ``size``, and how far they reach beyond each end of a side.

    >>> _centred_windows(8, 2), _centred_windows(7, 2), _centred_windows(7, 3)
    ((2, 0), (3, 1), (3, 1))
    """
    beyond = -side % size
    return (size, beyond // 2) if beyond % 2 == 0 else (size + 1, (beyond + 1) // 2)
