"""Gradients that have no derivative of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError


def first_order_only(backward: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Mark the ``backward`` of an autograd function: it refuses to be part of a graph, for second derivatives.

    torch's ``once_differentiable`` is not enough: it lets wrong second derivatives pass where the incoming gradient is
    a constant, and where derivatives by some chosen tensors alone are asked for.
    """

    @functools.wraps(backward)
    def marked(ctx: Any, *incoming: Tensor | None) -> tuple[Any, ...]:
        if torch.is_grad_enabled():  # in a backward pass: with create_graph=True
            raise ConfigError(
                "second derivatives (create_graph=True) are asked of an evolution whose integrator or gradient strategy"
                " has first ones only. Use gradient='backprop', and an integrator other than ImplicitMidpoint()."
            )
        return backward(ctx, *incoming)

    return marked
