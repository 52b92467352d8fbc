"""The state of an evolution: a tensor, or a tuple of tensors such as position and momentum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

State: TypeAlias = "Tensor | tuple[Tensor, ...]"


def axpy(u: State, h: float, k: State) -> State:
    r""":math:`u + h k`, part by part."""
    if isinstance(u, tuple):
        return tuple(a + h * b for a, b in zip(u, k, strict=True))
    assert not isinstance(k, tuple)
    return u + h * k


def parts(u: State) -> tuple[Tensor, ...]:
    """The tensors of a state."""
    return u if isinstance(u, tuple) else (u,)


def combine(u: State, *terms: tuple[float | Tensor, State]) -> State:
    r""":math:`u + \sum_i c_i k_i`, part by part, for terms :math:`(c_i, k_i)`.

    >>> combine(torch.ones(2), (2.0, torch.ones(2)), (-1.0, torch.ones(2)))
    tensor([2., 2.])
    """
    sums = list(parts(u))
    for c, k in terms:
        sums = [a + c * b for a, b in zip(sums, parts(k), strict=True)]
    return like(u, sums)


def like(u: State, tensors: Sequence[Tensor]) -> State:
    """The tensors as a state of the same structure as ``u``: the inverse of :func:`parts`."""
    return tuple(tensors) if isinstance(u, tuple) else tensors[0]


def square(tensors: Iterable[Tensor]) -> Tensor:
    """The sum of the squared moduli of all entries, in double precision.

    >>> square([torch.tensor([3.0]), torch.tensor([4.0j])])
    tensor(25., dtype=torch.float64)
    """
    return torch.stack([_real(p).double().square().sum() for p in tensors]).sum()


def _real(p: Tensor) -> Tensor:
    return torch.view_as_real(p.resolve_conj()) if p.is_complex() else p
