"""Finite differences on evenly spaced points, as sparse matrices."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_WIDTH = 7  # points of a stencil


@lru_cache(maxsize=32)
def difference_matrix(count: int, spacing: float, order: int, periodic: bool) -> csr_array:
    """The derivative of an order by stencils of seven points, one-sided at the ends unless periodic; (count, count).

    Exact for polynomials up to degree 6.

    >>> slope = difference_matrix(9, 0.5, 1, periodic=False)
    >>> bool(np.allclose(slope @ np.arange(9.0), 2.0))
    True
    """
    from scipy.sparse import csr_array

    half = _WIDTH // 2
    rows = np.repeat(np.arange(count), _WIDTH)
    middle = np.arange(count) if periodic else np.clip(np.arange(count), half, count - 1 - half)
    columns = (middle[:, None] + np.arange(-half, half + 1)).ravel()
    offsets = columns.reshape(count, _WIDTH) - np.arange(count)[:, None]
    kinds, number = np.unique(offsets, axis=0, return_inverse=True)
    weights = np.stack([_weights(tuple(kind.tolist()), order) for kind in kinds])[number.ravel()] / spacing**order
    return csr_array((weights.ravel(), (rows, columns % count)), shape=(count, count))


def _weights(offsets: tuple[int, ...], order: int) -> np.ndarray:
    powers = np.vander(np.array(offsets, dtype=float), increasing=True).T
    wanted = np.zeros(len(offsets))
    wanted[order] = math.factorial(order)
    return np.linalg.solve(powers, wanted)
