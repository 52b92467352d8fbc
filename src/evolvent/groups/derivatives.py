"""How derivatives change when the plane is rotated, mirrored or mapped by any matrix."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from evolvent._core.checks import check_whole, told
from evolvent._core.errors import ConfigError
from evolvent.groups.group import Group
from evolvent.groups.representation import Representation


def multi_indices(order: int) -> list[tuple[int, int]]:
    r"""All :math:`(i, j)` with :math:`i + j` at most ``order``: which derivatives :math:`\partial_1^i \partial_2^j`.

    >>> multi_indices(2)
    [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]
    """
    check_whole(0, order=order)
    return [(m - j, j) for m in range(order + 1) for j in range(m + 1)]


def chain_rule(g: np.ndarray, order: int) -> np.ndarray:
    r"""The matrix :math:`\hat\rho(g)` of eq. (5) of He et al. 2023, for any invertible :math:`g`.

    .. math:: \partial^\alpha [f(g^{-1} x)] = \sum_\beta \hat\rho_{\alpha\beta}(g)\, (\partial^\beta f)(g^{-1} x)

    It is a representation (Lemma 1), with one block for each order.

    Args:
        g: (2, 2).
        order: the highest order of derivatives.

    Returns: (D, D) with D = (order + 1)(order + 2) / 2, in the order of :func:`multi_indices`.

    >>> chain_rule(np.diag([0.5, 1.0]), 1).tolist()
    [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]
    """
    inverse = _inverse(g)
    first, second = inverse[:, 0], inverse[:, 1]  # the chain rule for each of the two first derivatives
    indices = multi_indices(order)
    matrix = np.zeros((len(indices), len(indices)))
    for row, (i, j) in enumerate(indices):
        product = np.ones(1)
        for factor in [first] * i + [second] * j:
            product = np.convolve(product, factor)
        start = (i + j) * (i + j + 1) // 2
        matrix[row, start : start + i + j + 1] = product
    return matrix


def _inverse(g: np.ndarray) -> np.ndarray:
    try:
        matrix = np.asarray(g, dtype=np.float64)
        if matrix.shape == (2, 2):
            return np.linalg.inv(matrix)
    except (TypeError, ValueError):  # no numbers, or a singular matrix
        pass
    given = g.tolist() if isinstance(g, np.ndarray) else g
    raise ConfigError(f"g must be an invertible matrix of numbers (2, 2), got {told(given)}.")


def derivative_scales(order: int) -> np.ndarray:
    r""":math:`\sqrt{\binom{i + j}{i}}` for each derivative: with these factors :math:`\hat\rho` of a rotation is
    orthogonal, so that coefficients change as derivatives do."""
    return np.array([math.sqrt(math.comb(i + j, i)) for i, j in multi_indices(order)])


@lru_cache(maxsize=256)
def derivative_representation(group: Group, order: int) -> Representation:
    r"""How the derivatives :math:`\sqrt{\binom{i+j}{i}}\, \partial_1^i \partial_2^j` up to an order change: orthogonal.

    >>> derivative_representation(Group(16), 4).size
    15
    """
    scale = derivative_scales(order)
    matrices = np.stack([chain_rule(g, order) for g in group.matrices])
    return Representation(group, scale[:, None] * matrices / scale, f"derivatives({group}, {order})")
