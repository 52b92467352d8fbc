"""Conjugate gradients for systems whose residuals stay level for long before they fall."""

import pytest
import torch

from evolvent.errors import ConfigError
from evolvent.graphs import SparseMatrix, conjugate_gradients, laplacian


def test_level_residuals_do_not_end_the_iteration(dtype):
    count, step = 400, 1e4
    half = torch.diag(torch.ones(count - 1, dtype=dtype), 1)
    L = laplacian(SparseMatrix.from_dense(half + half.T))
    A = torch.eye(count, dtype=dtype) + step * L.dense()
    b = torch.zeros(count, 1, dtype=dtype)
    b[: count // 2] = 1  # smooth: hundreds of iterations pass before the residual falls
    x = conjugate_gradients(A.matmul, b, A.diagonal(), tolerance=1e-4)
    assert (A @ x - b).norm() < 1e-2 * b.norm()


def test_matrices_that_are_not_positive_definite_are_refused():
    A = torch.tensor([[1.0, 3.0], [3.0, 1.0]])
    with pytest.raises(ConfigError, match=r"positive definite.*float32"):
        conjugate_gradients(A.matmul, torch.tensor([[1.0], [-1.0]]), A.diagonal())
    found = conjugate_gradients(A.matmul, torch.zeros(2, 1), A.diagonal())
    assert not found.any()
