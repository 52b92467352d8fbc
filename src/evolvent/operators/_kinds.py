"""Operators by kind, so that networks and recipes can choose one by name."""

from __future__ import annotations

from collections.abc import Callable

from evolvent._core.registry import Registry
from evolvent.operators._contract import LinearOperator

OPERATORS: Registry[Callable[[int, int], LinearOperator]] = Registry("operator")


def make_operator(kind: str, in_channels: int, out_channels: int) -> LinearOperator:
    """An operator of a registered kind, such as ``"full"`` or ``"dense"``, between two numbers of channels."""
    return OPERATORS.get(kind)(in_channels, out_channels)
