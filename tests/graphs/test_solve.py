"""Conjugate gradients for systems whose residuals stay level for long before they fall."""

import torch

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
