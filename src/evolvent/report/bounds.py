"""How a page stays small whatever it shows: a few of many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.report.numbers import count


def evenly(size: int, limit: int) -> list[int]:
    """At most ``limit`` of the numbers 0 ... size - 1, evenly spread, the first and the last among them.

    >>> evenly(7, 4), evenly(3, 10)
    ([0, 2, 4, 6], [0, 1, 2])
    """
    places = np.linspace(0, size - 1, min(size, max(2, limit))).round().astype(int)
    return list(dict.fromkeys(places.tolist()))


def first_few(items: Sequence[str], limit: int) -> list[str]:
    """At most ``limit`` of the items, and how many were left out.

    >>> first_few(["a", "b", "c", "d"], 2)
    ['a', 'b', 'and 2 more']
    """
    return list(items) if len(items) <= limit else [*items[:limit], f"and {count(len(items) - limit)} more"]
