"""What the functions of a problem must give: columns (N, 1), and how a problem that gives something else is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from evolvent._core.checks import described
from evolvent._core.errors import ConfigError, ShapeError

Value = Callable[..., Tensor] | float | Sequence[float]  # of columns (N, 1), or a constant, or one for each unknown


def check_value(value: Any, components: int, whose: str) -> None:
    """Refuse what is neither a function of columns nor a number, nor a number for each of the unknowns."""
    if value is None or callable(value) or isinstance(value, Real):
        return
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, Real) for one in value):
        raise ConfigError(
            f"{whose} is a function of coordinates, each a column (N, 1), or a number, or one for each unknown, got "
            f"{described(value)}."
        )
    if len(value) != components:
        raise ShapeError(f"{whose} has {len(value)} numbers for {components} unknowns. Give one for each, or a number.")


def value_at(value: Value, like: Tensor, columns: Mapping[str, Tensor], components: int, whose: str) -> Tensor:
    """Values (N, components) of a function of columns (N, 1); numbers stand for constants.

    Args:
        value: the function, a number, or one for each component.
        like: points (N, coordinates), for as many values of their kind.
        columns: what it takes, by name; none for the start of an ordinary differential equation.
        components: of u.
        whose: of which problem it is what, in print.
    """
    try:
        found: Any = value(*columns.values()) if callable(value) else value
    except TypeError as error:
        if not callable(value) or _takes(value, len(columns)):
            raise  # what it computes with; derivatives are then found in another way
        taken = (
            f"take {', '.join(columns)}, each a column (N, 1)" if columns else "be a number, or one for each unknown"
        )
        raise ConfigError(f"{whose} must {taken}: {error}.") from error
    if isinstance(found, (list, tuple)) and not callable(value):
        return torch.cat([torch.zeros_like(like[:, :1]) + float(one) for one in found], dim=1)
    if isinstance(found, Real) or (isinstance(found, Tensor) and found.ndim == 0):
        constant = float(found) if isinstance(found, Real) else found
        return (torch.zeros_like(like[:, :1]) + constant).expand(-1, components)
    if not isinstance(found, Tensor) or found.shape != (len(like), components):
        given = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else described(found)
        raise ShapeError(
            f"{whose} gave {given} for {len(like)} points, expected shape ({len(like)}, {components}): "
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


def joined(found: Tensor | Sequence[Tensor]) -> Tensor:
    """One tensor (N, columns) of a residual that may be a list of columns."""
    return found if isinstance(found, Tensor) else torch.cat(list(found), dim=1)


def _shape(part: Any) -> str:
    return f"shape {tuple(part.shape)}" if isinstance(part, Tensor) else described(part)
