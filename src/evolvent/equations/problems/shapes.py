"""What the functions of a problem must give: columns (N, 1), and how a problem that gives something else is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from evolvent._core.checks import described
from evolvent._core.errors import ConfigError, ShapeError

Value = Callable[..., Tensor] | float  # of columns (N, 1), or a constant


def check_value(value: Any, whose: str) -> None:
    """Refuse what is neither a function of columns nor a number."""
    if value is not None and not callable(value) and not isinstance(value, Real):
        raise ConfigError(
            f"{whose} is a function of coordinates, each a column (N, 1), or a number, got {described(value)}."
        )


def value_at(value: Value, columns: Sequence[Tensor], names: Sequence[str], components: int, whose: str) -> Tensor:
    """Values (N, components) of a function of columns (N, 1); a number stands for a constant.

    Args:
        value: the function, or a number.
        columns: what it takes.
        names: of the columns.
        components: of u.
        whose: of which problem it is what, in print.
    """
    try:
        found: Any = value(*columns) if callable(value) else value
    except TypeError as error:
        if not callable(value) or _takes(value, len(columns)):
            raise  # what it computes with; derivatives are then found in another way
        raise ConfigError(f"{whose} must take {', '.join(names)}, each a column (N, 1): {error}.") from error
    if isinstance(found, Real) or (isinstance(found, Tensor) and found.ndim == 0):
        constant = float(found) if isinstance(found, Real) else found
        return (torch.zeros_like(columns[0]) + constant).expand(-1, components)
    if not isinstance(found, Tensor) or found.shape != (len(columns[0]), components):
        given = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else described(found)
        raise ShapeError(
            f"{whose} gave {given} for {len(columns[0])} points, expected shape ({len(columns[0])}, {components}): "
            "a row for each point and a column for each unknown. The coordinates are columns (N, 1)."
        )
    return found


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments, as far as it tells."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # of some functions written in C, which tell nothing
        return True
    return True


def check_residual(found: Any, points: int, widths: Sequence[int], whose: str) -> None:
    """Refuse a residual or density that is not a column for each equation, or a list of such columns.

    Args:
        found: what the function gave.
        points: where it was evaluated.
        widths: columns that one tensor may have; parts of a list have one.
        whose: of which problem it is what, in print.
    """
    listed = isinstance(found, (list, tuple))
    parts, widths = (list(found), (1,)) if listed else ([found], widths)
    if parts and all(isinstance(part, Tensor) and part.shape in [(points, k) for k in widths] for part in parts):
        return
    given = " and ".join(_shape(part) for part in parts[:3]) or "an empty list"
    raise ShapeError(
        f"{whose} gave {'a list of ' if listed and parts else ''}{given} for {points} points, expected shape "
        f"({points}, 1), or a list of such columns for a system, made of u.component(0), u.component(1), ..."
    )


def _shape(part: Any) -> str:
    return f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else described(part)
