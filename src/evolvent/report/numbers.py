"""Numbers as people read them."""

from __future__ import annotations

import math

NONE = "–"


def count(value: float | None) -> str:
    """A whole number with separators.

    >>> count(504938)
    '504,938'
    """
    return NONE if value is None or not math.isfinite(value) else f"{value:,.0f}"


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

    >>> memory(12_900_000), memory(100)
    ('12.3 MiB', '100 B')
    """
    if size is None:
        return NONE
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 1024**power:
            return f"{size / 1024**power:.1f} {unit}"
    return f"{size:.0f} B"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of one in percent.

    >>> percent(0.978)
    '97.8 %'
    """
    if share is None:
        return NONE
    return f"{100 * share:.{digits}f} %" if math.isfinite(share) else "NaN"


def points(difference: float, digits: int = 2) -> str:
    """A difference of shares in percentage points.

    >>> points(0.0042)
    '0.42 points'
    """
    return f"{100 * difference:.{digits}f} points"


def signed(text: str) -> str:
    """A formatted number with a typographic minus."""
    return text.replace("-", "−")


def decimal(value: float | None, digits: int = 4) -> str:
    """A number with few significant digits.

    >>> decimal(0.0712345), decimal(None)
    ('0.07123', '–')
    """
    if value is None:
        return NONE
    return signed(f"{value:.{digits}g}") if math.isfinite(value) else "NaN"


def duration(seconds: float | None) -> str:
    """A time span in its two largest units.

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
