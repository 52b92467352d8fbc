"""Claims that are measured, also under ``python -O``, and distances between states to measure them by."""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent._core.state import State, parts, square


def claim(holds: bool, message: str) -> None:
    """Raise :class:`AssertionError` unless ``holds``."""
    if not holds:
        raise AssertionError(message)


def finite_gradient(gradient: Tensor | None, owner: str) -> Tensor:
    """The gradient, which must be there and finite."""
    if gradient is None:
        raise AssertionError(f"{owner} gets no gradient, it must get one.")
    claim(bool(gradient.isfinite().all()), f"{owner} gets a gradient that is not finite.")
    return gradient


def norm(u: State) -> float:
    r"""Euclidean norm :math:`\|u\|` over all parts of a state, in float64."""
    return sum(_square(p) for p in parts(u)) ** 0.5


def distance(u: State, v: State) -> float:
    r""":math:`\|u - v\| / \max(1, \|v\|)`: relative for large states, absolute for small ones.

    >>> import torch
    >>> distance(torch.tensor([3.0, 4.0]), torch.tensor([0.0, 0.0]))
    5.0
    """
    claim(
        [p.shape for p in parts(u)] == [p.shape for p in parts(v)],
        f"shapes differ: {[tuple(p.shape) for p in parts(u)]} and {[tuple(p.shape) for p in parts(v)]}.",
    )
    apart = norm(tuple(_wide(a) - _wide(b) for a, b in zip(parts(u), parts(v), strict=True)))
    return apart / max(1.0, norm(v))


def _wide(p: Tensor) -> Tensor:
    return p.to(torch.promote_types(p.dtype, torch.float64))


def _square(p: Tensor) -> float:
    return square([p.detach()]).item()
