"""Which layers a field allows: checks of what its group does to channels."""

from __future__ import annotations

import numpy as np

from evolvent._core.errors import ConfigError
from evolvent.groups import Field


def check_moves_channels(field: Field, what: str, instead: str) -> None:
    """Refuse fields whose channels the group does more to than to move them."""
    if field.representation.permutation is None:
        raise ConfigError(_mixes(field, what, instead))


def check_moves_up_to_sign(field: Field, what: str, instead: str) -> None:
    """Refuse fields whose channels the group does more to than to move them and to change their signs."""
    size = np.abs(field.representation.matrices)
    if not np.all((size < 1e-12) | (np.abs(size - 1) < 1e-12)):
        raise ConfigError(_mixes(field, what, instead))


def check_orthogonal(field: Field, what: str) -> None:
    """Refuse fields whose vectors the group makes longer or shorter."""
    if not field.representation.orthogonal:
        raise ConfigError(f"{what} is made of lengths, which the group changes on {field}. Use an orthogonal basis.")


def _mixes(field: Field, what: str, instead: str) -> str:
    return (
        f"{what} does not commute with the group on {field}, which does more than move channels. Use {instead}, or "
        "regular fields."
    )
