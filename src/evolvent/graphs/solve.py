"""Conjugate gradients for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_STALLED = 50  # iterations without progress after which rounding is taken to allow no more


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    b: Tensor,
    diagonal: Tensor,
    *,
    tolerance: float | None = None,
    most: int = 10_000,
    tell: Callable[[float], None] = lambda share: None,
) -> Tensor:
    r"""The solution of :math:`A x = b` for symmetric positive definite :math:`A`, preconditioned by its diagonal.

    Each column has an iteration of its own, and all of them share the products with :math:`A`. It ends when every
    residual is below ``tolerance`` times its right-hand side, or when rounding allows no more.

    Args:
        product: :math:`x \mapsto A x`, without gradient.
        b: right-hand sides.
        diagonal: of :math:`A`, (N,).
        tolerance: of the residuals; by default four times the rounding of the precision.
        most: iterations.
        tell: called with the share of the digits that are found.

    Shape: (N, ...) to the same.

    >>> A = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
    >>> torch.allclose(A @ conjugate_gradients(A.matmul, torch.ones(2, 1), A.diagonal()), torch.ones(2, 1))
    True
    """
    flat, tiny = b.reshape(len(b), -1), torch.finfo(b.dtype).tiny
    inverse = diagonal.to(b.dtype).reciprocal()[:, None]
    scale = flat.norm(dim=0)
    goal = scale * (tolerance or 4 * torch.finfo(b.dtype).eps)
    rough = scale * torch.finfo(b.dtype).eps ** 0.5
    x, residual = torch.zeros_like(flat), flat.clone()
    direction = inverse * residual
    rho = (residual * direction).sum(dim=0)
    best, stalled = scale, 0
    for _ in range(most):
        image = product(direction)
        alpha = rho / (direction * image).sum(dim=0).clamp_min(tiny)
        x.addcmul_(direction, alpha)
        residual.addcmul_(image, alpha, value=-1)
        size = residual.norm(dim=0)
        early = (size > rough).any()  # residuals of stiff systems stay level for long before they fall
        stalled = 0 if bool(early | (size < 0.9 * best).any()) else stalled + 1
        best = torch.minimum(best, size)
        if bool((size <= goal).all()) or stalled > _STALLED:
            break
        tell(_share_found(size, goal, scale.clamp_min(tiny)))
        z = inverse * residual
        following = (residual * z).sum(dim=0)
        direction = z.addcmul_(direction, following / rho.clamp_min(tiny))
        rho = following
    return x.reshape(b.shape)


def _share_found(size: Tensor, goal: Tensor, scale: Tensor) -> float:
    """Digits of the worst column, of those that are sought."""
    tiny = torch.finfo(size.dtype).tiny
    found, sought = ((part / scale).clamp(tiny, 0.99).log() for part in (size, goal))
    return float((found / sought).min().clamp(0, 1))
