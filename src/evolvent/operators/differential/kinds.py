"""Steerable operators between regular fields as kinds, which dynamics and recipes choose by name."""

from __future__ import annotations

from functools import partial

from evolvent._core.errors import ConfigError
from evolvent.groups import Field, Group, cyclic, dihedral, regular_fields
from evolvent.operators._contract import OPERATORS
from evolvent.operators.differential.steerable import SteerablePDO
from evolvent.operators.differential.stencils import FittedGaussian


def steerable_operator(group: Group, in_channels: int, out_channels: int) -> SteerablePDO:
    """A steerable operator of order 2 with stencils of 3x3 pixels, whose channels are regular fields of the group.

    >>> steerable_operator(cyclic(8), 16, 8)
    SteerablePDO(2 x regular(C8) -> 1 x regular(C8), order=2, FittedGaussian(size=3, sigma=0.6, ...), complete)
    """
    before, after = (_fields(group, channels) for channels in (in_channels, out_channels))
    return SteerablePDO(before, after, 2, FittedGaussian(3, 0.6))


def _fields(group: Group, channels: int) -> Field:
    if channels < 1 or channels % group.order:
        raise ConfigError(
            f"regular fields of {group} have {group.order} channels each, so their number must be a multiple of "
            f"{group.order}, got {channels}."
        )
    return regular_fields(group, channels // group.order)


for _group in (cyclic(4), cyclic(8), dihedral(4)):
    OPERATORS.add(f"steerable_{_group.name.lower()}", partial(steerable_operator, _group))
