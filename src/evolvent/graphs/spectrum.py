"""How large the eigenvalues of a graph Laplacian are, and with that how large an explicit step may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError
from evolvent.graphs.sparse import SparseMatrix, check_graph

_SMALL = 32  # rows up to which a dense eigenvalue solver is used


def largest_eigenvalue(matrix: SparseMatrix) -> float:
    r"""The largest eigenvalue of a symmetric matrix, by Lanczos' method (ARPACK).

    >>> import torch
    >>> from evolvent.graphs import laplacian
    >>> largest_eigenvalue(laplacian(SparseMatrix.from_dense(1 - torch.eye(5, dtype=torch.float64))))
    5.0...
    """
    return max(_outer_eigenvalues(matrix, "LA", 1), default=0.0)


def smallest_eigenvalues(matrix: SparseMatrix, count: int) -> list[float]:
    """The smallest eigenvalues of a symmetric matrix, ascending; of a Laplacian the first is zero.

    They are those of the reversed spectrum, so that no system is solved.
    """
    check_whole(1, count=count)
    return _outer_eigenvalues(matrix, "SA", count)[:count]


def _outer_eigenvalues(matrix: SparseMatrix, which: str, count: int) -> list[float]:
    check_graph(matrix)
    if not matrix.is_symmetric:
        raise ConfigError("eigenvalues are sought of symmetric matrices only; this one differs from its transpose.")
    if len(matrix) <= max(_SMALL, 2 * count):
        return np.linalg.eigvalsh(matrix.dense().double().cpu().numpy()).tolist()
    if eigenvalue_bound(matrix) == 0:
        return [0.0] * count  # ARPACK finds no start in a space that the matrix annihilates
    from scipy.sparse.linalg import eigsh

    start = np.random.default_rng(0).standard_normal(len(matrix))
    options: dict[str, Any] = {"tol": 1e-10, "maxiter": 20_000, "return_eigenvectors": False}
    found: Any = eigsh(matrix.to_scipy(), k=count, which=which, v0=start, **options)
    return sorted(found.tolist())


def eigenvalue_bound(matrix: SparseMatrix) -> float:
    r"""An upper bound of all :math:`|\lambda|` that costs one pass, :math:`\max_i \sum_j |l_{ij}|` (Gershgorin)."""
    check_graph(matrix)
    return matrix.with_values(matrix.values.abs()).row_sums().max().item() if len(matrix) else 0.0


def largest_stable_step(matrix: SparseMatrix) -> float:
    r"""The largest :math:`\gamma` with which powers of :math:`I - \gamma L` stay bounded.

    For symmetric :math:`L` that is :math:`2 / \lambda_{max}`. For others it is :math:`1 / \max_i l_{ii}`: then
    :math:`I - \gamma L` has no negative entry and rows of sum one, so that values stay between the smallest and the
    largest (cf. Proposition 2 of Wang et al.); larger steps may be stable as well.
    """
    check_graph(matrix)
    highest = largest_eigenvalue(matrix) / 2 if matrix.is_symmetric else matrix.diagonal().max().item()
    return 1 / highest if highest > 0 else float("inf")
