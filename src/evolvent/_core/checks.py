"""Checks of arguments: each kind once, with one wording. They say what was given and what is expected."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

from torch import Tensor

from evolvent._core.errors import ConfigError, ShapeError, UnknownNameError

Name = TypeVar("Name", bound=str)


def check_positive(**numbers: float) -> None:
    """Refuse numbers that are not positive and finite.

    >>> check_positive(step_size=0.1, scale=2)
    >>> check_positive(step_size=0.0)
    Traceback (most recent call last):
    evolvent._core.errors.ConfigError: step_size must be positive and finite, got 0.0.
    """
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ConfigError(f"{name} must be positive and finite, got {number}.")


def check_not_negative(**numbers: float) -> None:
    """Refuse numbers that are negative or not finite."""
    for name, number in numbers.items():
        if not 0 <= number < math.inf:
            raise ConfigError(f"{name} must be finite and at least 0, got {number}.")


def check_whole(least: int = 1, **numbers: Any) -> None:
    """Refuse whatever is not a whole number of at least ``least``."""
    for name, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, got {number!r}.")


def check_even(**counts: int) -> None:
    """Refuse numbers of channels or features that cannot be split into halves."""
    for name, count in counts.items():
        if count < 2 or count % 2:
            raise ConfigError(f"{name} must be even and positive, because it is split into halves, got {count}.")


def check_share(**shares: float) -> None:
    """Refuse shares outside [0, 1)."""
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise ConfigError(f"{name} must be at least 0 and below 1, got {share}.")


def check_choice(kind: str, name: Name, known: Iterable[str]) -> Name:
    """The name itself, if it is one of the ``known``; others are answered with the nearest of them.

    >>> check_choice("boundary", "periodic", ("periodic", "reflecting"))
    'periodic'
    """
    known = tuple(known)
    if name not in known:
        raise UnknownNameError(kind, str(name), known, f"Choose one of {', '.join(known)}.")
    return name


def check_images(
    x: Tensor, taker: str, channels: int | None = None, size: tuple[int, int] | None = None, advice: str = ""
) -> None:
    """Refuse tensors that are not images (batch, channels, height, width) with the given channels and size."""
    if x.ndim == 4 and channels in (None, x.shape[1]) and size in (None, tuple(x.shape[2:])):
        return
    wanted = f"images of {channels} channels" if channels else "images"
    wanted += f" with {size[0]}x{size[1]} pixels" if size else ""
    raise ShapeError(
        f"{taker} takes {wanted}, as (batch, channels, height, width), got shape {tuple(x.shape)}."
        + (f" {advice}" if advice else "")
    )
