"""Which layers a field allows: checks of what its group does to channels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import told
from evolvent._core.errors import ConfigError, ShapeError
from evolvent.groups import Field


class EquivarianceWarning(UserWarning):
    """A layer is used in a way in which it does not commute with the group."""


def check_fields(layer: object, *fields: object) -> None:
    """Refuse what is no field, such as a number of channels."""
    for field in fields:
        if not isinstance(field, Field):
            raise ConfigError(
                f"{type(layer).__name__} is made for fields, such as regular_fields(cyclic(8), 4), got {told(field)}."
            )


def check_moves_channels(field: Field, what: str, instead: str) -> None:
    """Refuse fields unless the group only permutes their channels."""
    if field.representation.permutation is None:
        raise ConfigError(_mixes(field, what, instead))


def check_moves_up_to_sign(field: Field, what: str, instead: str) -> None:
    """Refuse fields unless the group only permutes their channels and changes signs."""
    size = np.abs(field.representation.matrices)
    if not np.all((size < 1e-12) | (np.abs(size - 1) < 1e-12)):
        raise ConfigError(_mixes(field, what, instead))


def check_orthogonal(field: Field, what: str) -> None:
    """Refuse fields whose vectors the group makes longer or shorter."""
    if not field.representation.orthogonal:
        raise ConfigError(f"{what} is made of lengths, which the group changes on {field}. Use an orthogonal basis.")


def check_map_size(layer: Any, u: Tensor) -> None:
    """Refuse maps that have no pixel where the layer's stencils fit."""
    size, padding = layer.discretisation.size, layer.padding
    least = size - 2 * padding
    if least > 1 and min(u.shape[2:]) < least:
        raise ShapeError(
            f"{type(layer).__name__}: stencils of {size} x {size} with padding {padding} need maps of at least {least} "
            f"x {least}, got shape {tuple(u.shape)}. Take larger maps, or more padding."
        )


def warn_of_uneven_squares(layer: Any, field: Field, size: int, sides: torch.Size, advice: str) -> None:
    """Warn, once for each layer, if squares of pixels do not fill a map: then they do not lie symmetrically on it."""
    if torch.compiler.is_compiling() or getattr(layer, "_warned", False):
        return
    if all(side % size == 0 for side in sides) or len(field.group.grid_symmetries) == 1:
        return
    layer._warned = True
    warnings.warn(
        f"squares of {size} pixels do not fill maps of {sides[0]}x{sides[1]}, so {type(layer).__name__} on {field} "
        f"does not commute with {field.group}. Pad the images so that {size} divides the sides here, {advice}.",
        EquivarianceWarning,
        stacklevel=4,
    )


def _mixes(field: Field, what: str, instead: str) -> str:
    return (
        f"{what} does not commute with the group on {field}, which does more than move channels. Use {instead}, or "
        "regular fields."
    )
