"""Values in the form that JSON allows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any


def plain(value: Any, digits: int | None = None, *, finite: bool = True) -> Any:
    """``value`` made of dictionaries, lists, strings and finite numbers.

    Data classes become dictionaries, tuples, tensors and arrays lists, complex numbers pairs, paths strings; NaN and
    infinity, which JSON lacks, become None.

    Args:
        value: anything made of these.
        digits: significant digits of the numbers; all by default.
        finite: whether NaN and infinity become None; they stay as they are in YAML, which has them.

    >>> plain({"bound": float("inf"), "mode": 1 + 2j, "steps": (1, 2)})
    {'bound': None, 'mode': [1.0, 2.0], 'steps': [1, 2]}
    >>> plain([2 / 3], digits=3)
    [0.667]
    """
    match value:
        case Enum():
            return plain(value.value, digits, finite=finite)
        case None | int():
            return value
        case str():
            return str(value)
        case float():
            return _number(float(value), digits, finite)
        case complex():
            return [_number(value.real, digits, finite), _number(value.imag, digits, finite)]
        case Mapping():
            return {plain(key): plain(entry, digits, finite=finite) for key, entry in value.items()}
        case list() | tuple():
            return [plain(entry, digits, finite=finite) for entry in value]
        case PurePath():
            return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), digits, finite=finite) for field in fields(value)}
    to_list = getattr(value, "tolist", None)  # of torch and numpy, neither of which this module needs to import
    if to_list is not None:
        return plain(to_list(), digits, finite=finite)
    raise TypeError(f"JSON has no form for a {type(value).__name__}.")


def _number(value: float, digits: int | None, finite: bool) -> float | None:
    if not math.isfinite(value):
        return None if finite else value
    return value if digits is None else float(f"{value:.{digits}g}")
