"""The optimal schedule for undoing steps when only few states can be stored (Griewank and Walther 2000)."""

from __future__ import annotations

from functools import cache
from math import comb


@cache
def least_advances(steps: int, stored: int) -> int:
    r"""The least number of steps to be computed, besides the differentiated ones, to differentiate ``steps`` backwards.

    .. math:: t(l, s) = r\,l - \binom{s + r}{r - 1}, \qquad
              r \text{ the least number with } \binom{s + r}{s} \ge l

    Griewank and Walther 2000, "Algorithm 799: revolve"; ``stored`` counts the states that can be held at a time, the
    first one among them.

    >>> [least_advances(10, s) for s in (1, 2, 3, 9)]
    [45, 20, 15, 9]
    """
    repetitions = 0
    while comb(stored + repetitions, stored) < steps:
        repetitions += 1
    return repetitions * steps - (comb(stored + repetitions, repetitions - 1) if repetitions else 0)


@cache
def next_stored(steps: int, stored: int) -> int:
    """After how many steps to store the next state, on the way through ``steps`` with the first state stored.

    >>> next_stored(10, 2)
    6
    """
    if stored < 2 or steps < 2:
        return steps

    def advances(m: int) -> int:
        return m + least_advances(steps - m, stored - 1) + least_advances(m, stored)

    return min(range(1, steps), key=advances)


def stored_positions(steps: int, stored: int) -> list[int]:
    """Which states to store on the first way through ``steps``: the start, then ever nearer to the end.

    >>> stored_positions(10, 3)
    [0, 4, 7]
    """
    positions = [0]
    while len(positions) < stored and steps - positions[-1] > 1:
        left = stored - len(positions) + 1
        positions.append(positions[-1] + next_stored(steps - positions[-1], left))
    return positions
