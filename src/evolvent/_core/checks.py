"""Checks of arguments: each kind once, with one wording. They say what was given and what is expected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, EvolventError, ShapeError, UnknownNameError, shortened

Name = TypeVar("Name", bound=str)
_ARRAYS = (Tensor, np.ndarray)


def check_positive(**numbers: float) -> None:
    """Refuse numbers that are not positive and finite.

    >>> check_positive(step_size=0.1, scale=2)
    >>> check_positive(step_size=0.0)
    Traceback (most recent call last):
    evolvent._core.errors.ConfigError: step_size must be positive and finite, got 0.0.
    """
    for name, number in numbers.items():
        if not _is_number(number) or not 0 < number < math.inf:
            raise ConfigError(f"{name} must be positive and finite, got {told(number)}.")


def check_not_negative(**numbers: float) -> None:
    """Refuse numbers that are negative or not finite."""
    for name, number in numbers.items():
        if not _is_number(number) or not 0 <= number < math.inf:
            raise ConfigError(f"{name} must be finite and at least 0, got {told(number)}.")


def check_whole(least: int = 1, **numbers: Any) -> None:
    """Refuse whatever is not a whole number of at least ``least``."""
    for name, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, got {told(number)}.")


def check_even(**counts: int) -> None:
    """Refuse numbers of channels or features that cannot be split into halves."""
    for name, count in counts.items():
        if not isinstance(count, int) or count < 2 or count % 2:
            raise ConfigError(f"{name} must be even and positive, because it is split into halves, got {told(count)}.")


def check_share(**shares: float) -> None:
    """Refuse shares outside [0, 1)."""
    for name, share in shares.items():
        if not _is_number(share) or not 0 <= share < 1:
            raise ConfigError(f"{name} must be at least 0 and below 1, got {told(share)}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (hasattr(value, "__float__") and getattr(value, "ndim", 0) == 0)


def told(value: Any) -> str:
    """A value in a message: as it is written, or tensors and arrays by shape and dtype."""
    return described(value) if _has_values(value) else shortened(repr(value))


def _has_values(value: Any) -> bool:
    """Whether it is or holds tensors or arrays, whose values messages leave out."""
    if isinstance(value, (list, tuple)):
        return any(map(_has_values, value))
    return isinstance(value, _ARRAYS)


def check_path(path: Any, taker: str, what: str = "a folder") -> Path:
    """The path with ``~`` as the home of a user, if it is a text or a path that a system can look for."""
    try:
        found = Path(path).expanduser()
        found.exists()
    except TypeError:
        raise ConfigError(f"{taker} takes the path of {what}, got {told(path)}.") from None
    except RuntimeError:
        raise ConfigError(f"{taker} cannot look for {shortened(str(path))}: there is no such user.") from None
    except OSError as error:  # names that are too long, folders that may not be read
        raise ConfigError(f"{taker} cannot look for {shortened(str(path))}: {error.strerror}.") from None
    return found


def check_choice(kind: str, name: Name, known: Iterable[str]) -> Name:
    """The name itself, if it is one of the ``known``; others are answered with the nearest of them.

    >>> check_choice("boundary", "periodic", ("periodic", "reflecting"))
    'periodic'
    """
    known = tuple(known)
    if name not in known:
        raise UnknownNameError(kind, str(name), known, f"Choose one of {', '.join(known)}.")
    return name


def described(value: Any) -> str:
    """A value in a message: tensors and arrays by shape and dtype, anything else on one short line."""
    if isinstance(value, _ARRAYS):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    if _has_values(value):
        return shortened(f"{type(value).__name__} of {', '.join(map(described, value))}")
    return f"{type(value).__name__} {shortened(repr(value), 40)}"


def check_numbers(x: Any, network: nn.Module, taker: str) -> None:
    """Refuse what is not a tensor of the numbers that a network computes with, such as bytes or double precision."""
    if not isinstance(x, Tensor):
        raise ShapeError(f"{taker} takes a tensor, got {described(x)}.")
    like = next(network.parameters(), None)
    if like is None or x.dtype == like.dtype or torch.is_autocast_enabled(x.device.type):
        return
    wanted = str(like.dtype).removeprefix("torch.")
    advice = "Divide bytes by 255 first." if x.dtype == torch.uint8 else f"Convert them with x.to(torch.{wanted})."
    raise ShapeError(f"{taker} computes with {wanted} numbers, got {described(x)}. {advice}")


_MISFITS = (
    "expected input", "channels", "must match", "cannot be multiplied", "dtype", "same type", "scalar type",
    "dimension", "not implemented for", "shape", "input to", "d input", "positional argument", "expected stride",
    "size of tensor",
)  # fmt: skip


@contextmanager
def explaining_misfits(taker: str, given: Any) -> Iterator[None]:
    """Within the block PyTorch's complaint about the form of a tensor becomes one line that names what was given.

    Raises:
        ShapeError: if what was given does not fit.
    """
    try:
        yield
    except (EvolventError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, TypeError, AttributeError, IndexError, ValueError, AssertionError) as error:
        parts = given if isinstance(given, tuple) else (given,)
        tensors = all(isinstance(part, Tensor) for part in parts)
        if tensors and not any(sign in str(error).lower() for sign in _MISFITS):
            raise
        what = " and ".join(described(part) for part in parts[:3])
        if not tensors:
            raise ShapeError(f"{taker} takes a tensor, or a pair of tensors, got {what}.") from error
        raise ShapeError(f"{taker} does not take {what}: {shortened(str(error), 120)}") from error


def check_column(values: Any, rows: int, what: str) -> Tensor:
    """The values themselves, if they are one number for each of so many rows, (rows, 1).

    PyTorch would stretch a lone axis, (rows,), beside a column to all pairs of rows.

    >>> check_column(torch.zeros(3), 3, "the density")
    Traceback (most recent call last):
    evolvent._core.errors.ShapeError: the density must be one number for each of 3 points, a column (3, 1), got \
float32 of shape (3,). Keep the axis, as in x.sum(1, keepdim=True), or add it with [:, None].
    """
    if isinstance(values, Tensor) and values.shape == (rows, 1):
        return values
    raise ShapeError(
        f"{what} must be one number for each of {rows} points, a column ({rows}, 1), got {described(values)}. Keep the "
        "axis, as in x.sum(1, keepdim=True), or add it with [:, None]."
    )


def check_images(
    x: Tensor, taker: str, channels: int | None = None, size: tuple[int, int] | None = None, advice: str = ""
) -> None:
    """Refuse tensors that are not images (batch, channels, height, width) with the given channels and size."""
    if not isinstance(x, Tensor):
        raise ShapeError(f"{taker} takes images as a tensor, got {described(x)}.")
    if x.ndim == 4 and channels in (None, x.shape[1]) and size in (None, tuple(x.shape[2:])):
        return
    wanted = f"images of {channels} channels" if channels else "images"
    wanted += f" with {size[0]}x{size[1]} pixels" if size else ""
    raise ShapeError(
        f"{taker} takes {wanted}, as (batch, channels, height, width), got shape {tuple(x.shape)}."
        + (f" {advice}" if advice else "")
    )


def check_labelled_images(images: Tensor, labels: Tensor, taker: str) -> None:
    """Refuse what is not images, at least one, with one class for each."""
    check_images(images, taker)
    if len(images) == 0 or labels.shape != (len(images),):
        raise ShapeError(
            f"images and one class for each, (N,), are expected, got {len(images)} images and labels of shape "
            f"{tuple(labels.shape)}."
        )
