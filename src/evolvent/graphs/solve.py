"""Conjugate gradients for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from evolvent.graphs.sparse import SparseMatrix


def conjugate_gradients(
    matrix: SparseMatrix,
    b: Tensor,
    *,
    tolerance: float | None = None,
    most: int = 10_000,
    tell: Callable[[float], None] = lambda share: None,
) -> Tensor:
    r"""The solution of :math:`A x = b` for symmetric positive definite :math:`A`, preconditioned by its diagonal.

    Each column has an iteration of its own, all of them share the products with :math:`A`. It ends when every residual
    is below ``tolerance`` times its right-hand side; no gradient is recorded.

    Args:
        matrix: :math:`A`.
        b: right-hand sides.
        tolerance: of the residuals; by default near the rounding of the precision.
        most: iterations.
        tell: called with the share of the digits that are found.

    Shape: (N, ...) to the same.

    >>> A = SparseMatrix.from_dense(torch.tensor([[4.0, 1.0], [1.0, 3.0]]))
    >>> torch.allclose(A @ conjugate_gradients(A, torch.tensor([1.0, 2.0])), torch.tensor([1.0, 2.0]))
    True
    """
    flat = b.reshape(len(b), -1)
    tolerance = tolerance or 4 * torch.finfo(b.dtype).eps
    inverse = matrix.diagonal().to(b.dtype).reciprocal()[:, None]
    x, residual = torch.zeros_like(flat), flat.clone()
    goal = tolerance * flat.norm(dim=0)
    z = inverse * residual
    direction, rho = z.clone(), (residual * z).sum(dim=0)
    best = torch.full_like(goal, float("inf"))
    stalled = 0
    for _ in range(most):
        size = residual.norm(dim=0)
        if bool((size <= goal).all()):
            break
        stalled = 0 if bool((size < 0.9 * best).any()) else stalled + 1
        if stalled > 50:  # rounding allows no more
            break
        best = torch.minimum(best, size)
        tell(_share_found(size, goal, flat))
        image = matrix.product(direction)
        alpha = rho / (direction * image).sum(dim=0).clamp_min(torch.finfo(b.dtype).tiny)
        x.addcmul_(direction, alpha)
        residual.addcmul_(image, alpha, value=-1)
        z = inverse * residual
        following = (residual * z).sum(dim=0)
        direction = z + direction * (following / rho.clamp_min(torch.finfo(b.dtype).tiny))
        rho = following
    return x.reshape(b.shape)


def _share_found(size: Tensor, goal: Tensor, b: Tensor) -> float:
    scale = b.norm(dim=0).clamp_min(torch.finfo(b.dtype).tiny)
    tiny = torch.finfo(b.dtype).tiny
    left = (size / scale).clamp_min(tiny).log() / (goal / scale).clamp_min(tiny).log().clamp_max(-1e-3)
    return float(left.min().clamp(0, 1))
