"""Numbers as people read them; :func:`write` chooses the form by the unit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from evolvent._core.formats import format_bytes

if TYPE_CHECKING:
    from evolvent.tasks.findings import Unit

NONE = "–"


def write(value: float | None, unit: Unit = "number", digits: int | None = None) -> str:
    """A value in its unit.

    Args:
        value: None if it was not measured.
        unit: ``"share"`` is a share of one, written in percent.
        digits: decimals of a share in percent, by default 1; significant digits of a number, by default 4.

    >>> write(0.0075, "share", 2), write(0.0712345), write(41098, "count")
    ('0.75 %', '0.07123', '41,098')
    >>> write(754.0, "seconds"), write(2**20, "bytes"), write(None, "bytes")
    ('12 min 34 s', '1.0 MiB', '–')
    """
    match unit:
        case "share":
            return percent(value, 1 if digits is None else digits)
        case "count":
            return count(value)
        case "seconds":
            return duration(value)
        case "bytes":
            return memory(value)
    return decimal(value, 4 if digits is None else digits)


def write_difference(difference: float, unit: Unit = "number") -> str:
    """The size of a difference of two values in that unit.

    >>> write_difference(-0.0042, "share"), write_difference(-668, "count")
    ('0.42 points', '668')
    """
    size = abs(difference)
    return f"{100 * size:.2f} points" if unit == "share" else write(size, unit)


def count(value: float | None) -> str:
    """A whole number with separators.

    >>> count(504938)
    '504,938'
    """
    if value is None:
        return NONE
    return signed(f"{value:,.0f}") if math.isfinite(value) else "NaN"


def short(value: float | None) -> str:
    """A count with a unit once it has six digits or more.

    >>> short(41098), short(158_500_000), short(2_310_000_000)
    ('41,098', '158.5 M', '2.3 G')
    """
    if value is None or not math.isfinite(value):
        return NONE
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e5, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.1f} {unit}"
    return f"{value:,.0f}"


def memory(size: float | None) -> str:
    """Bytes with a binary unit.

    >>> memory(12_900_000), memory(None)
    ('12.3 MiB', '–')
    """
    return NONE if size is None or not math.isfinite(size) else format_bytes(size)


def percent(share: float | None, digits: int = 1) -> str:
    """A share of one in percent.

    >>> percent(0.978), percent(-0.5, 0)
    ('97.8 %', '−50 %')
    """
    if share is None:
        return NONE
    return signed(f"{100 * share:.{digits}f} %") if math.isfinite(share) else "NaN"


def decimal(value: float | None, digits: int = 4) -> str:
    """A number with few significant digits.

    >>> decimal(0.0712345), decimal(-2e-16), decimal(None)
    ('0.07123', '−2e−16', '–')
    """
    if value is None:
        return NONE
    return signed(f"{value:.{digits}g}") if math.isfinite(value) else "NaN"


def duration(seconds: float | None) -> str:
    """A span of time in its two largest units.

    >>> duration(7.25), duration(754), duration(9000)
    ('7.2 s', '12 min 34 s', '2 h 30 min')
    """
    if seconds is None or not math.isfinite(seconds):
        return NONE
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def milliseconds(seconds: float) -> str:
    """A short time.

    >>> milliseconds(0.01234)
    '12.3 ms'
    """
    return f"{1000 * seconds:.3g} ms"


def signed(text: str) -> str:
    """A formatted number with a typographic minus."""
    return text.replace("-", "−")


def capital(words: str) -> str:
    """The first letter as a capital, unless the first word has one already, as mIoU does.

    >>> capital("accuracy"), capital("mIoU")
    ('Accuracy', 'mIoU')
    """
    first = words.partition(" ")[0]
    return words[:1].upper() + words[1:] if first == first.lower() else words
