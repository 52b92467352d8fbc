"""Conjugate gradients for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent.graphs.sparse import SparseMatrix

_STIFF = 2.0**11  # steps of a random walk in an implicit step, beyond which float32 keeps three digits of the identity
_STIFFEST = 2.0**30  # and float64 seven, with which differences between nodes are still known
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

    Raises:
        ConfigError: if rounding has made the matrix indefinite.

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
    size, best, stalled = scale, scale, 0
    for _ in range(most):
        image = product(direction)
        curvature = (direction * image).sum(dim=0)
        if bool(((curvature <= 0) & (size > rough)).any()):  # later on it may vanish, as the direction does
            raise ConfigError(
                f"conjugate gradients need a positive definite matrix, and this one is not, at least in {_named(b)}: a "
                "time or a step may be too large. Take a smaller one, or float64."
            )
        alpha = rho / curvature.clamp_min(tiny)
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


def _named(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def is_stiff(steps: float, squared: bool = False) -> bool:
    r"""Whether :math:`I + h L` with this :math:`h \max l_{ii}` needs float64, see :func:`in_float64`.

    ``squared`` is for normal equations, in which digits are lost twice.

    Raises:
        ConfigError: if it is beyond float64 as well.
    """
    if steps > _STIFFEST:
        raise ConfigError(
            f"{steps:.3g} steps of a random walk are too many for one implicit step of diffusion: even float64 loses "
            f"digits beyond {_STIFFEST:.2g}. Take a shorter time."
        )
    return steps > (_STIFF**0.5 if squared else _STIFF)


def in_float64(weights: SparseMatrix) -> SparseMatrix:
    """The same weights with the digits of float64, equal across the diagonal where they were up to rounding."""
    precise = weights.to(dtype=torch.float64)
    return precise.with_values((precise.values + precise.T.values) / 2) if weights.is_symmetric else precise


def _share_found(size: Tensor, goal: Tensor, scale: Tensor) -> float:
    """Digits of the worst column, of those that are sought."""
    tiny = torch.finfo(size.dtype).tiny
    found, sought = ((part / scale).clamp(tiny, 0.99).log() for part in (size, goal))
    return float((found / sought).min().clamp(0, 1))
