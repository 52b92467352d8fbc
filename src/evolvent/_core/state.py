"""The state of an evolution: a tensor, or a tuple of tensors such as position and momentum."""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor

State: TypeAlias = "Tensor | tuple[Tensor, ...]"


def axpy(u: State, h: float, k: State) -> State:
    r""":math:`u + h k`, part by part."""
    if isinstance(u, tuple):
        return tuple(a + h * b for a, b in zip(u, k, strict=True))
    assert not isinstance(k, tuple)
    return u + h * k


def parts(u: State) -> tuple[Tensor, ...]:
    """The tensors a state consists of."""
    return u if isinstance(u, tuple) else (u,)
