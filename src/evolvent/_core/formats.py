"""Sizes as people read them."""

from __future__ import annotations


def format_bytes(size: float) -> str:
    """Bytes with a binary unit.

    >>> format_bytes(12_900_000), format_bytes(100)
    ('12.3 MiB', '100 B')
    """
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size >= 1024**power:
            return f"{size / 1024**power:.1f} {unit}"
    return f"{size:.0f} B"
