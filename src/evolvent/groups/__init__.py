"""Finite groups of the plane: elements, representations, the maps that commute with them, and fields."""

from evolvent.groups.derivatives import chain_rule, derivative_representation, derivative_scales, multi_indices
from evolvent.groups.field import Field, move_pixels, regular_fields, scalars
from evolvent.groups.group import Group, cyclic, dihedral
from evolvent.groups.intertwiners import intertwiner_count, intertwiners
from evolvent.groups.representation import (
    Representation,
    direct_sum,
    irrep,
    irreps,
    quotient,
    regular,
    restrict,
    sign,
    tensor_product,
    trivial,
)

__all__ = [
    "Field",
    "Group",
    "Representation",
    "chain_rule",
    "cyclic",
    "derivative_representation",
    "derivative_scales",
    "dihedral",
    "direct_sum",
    "intertwiner_count",
    "intertwiners",
    "irrep",
    "irreps",
    "move_pixels",
    "multi_indices",
    "quotient",
    "regular",
    "regular_fields",
    "restrict",
    "scalars",
    "sign",
    "tensor_product",
    "trivial",
]
