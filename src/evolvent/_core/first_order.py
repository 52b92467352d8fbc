"""Backward passes that cannot be differentiated again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError


class CarriesDerivatives:
    """Marks tensors that carry derivatives through all operations, and lose them in a backward pass written by hand."""


def wants_backward(*tensors: Tensor) -> bool:
    """Whether a backward pass written by hand is wanted for these tensors: gradients are recorded for some of them."""
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        return False
    by_themselves = any(isinstance(t, CarriesDerivatives) for t in tensors)
    return not by_themselves and any(t.requires_grad for t in tensors)


def first_order_only(backward: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Make the ``backward`` of an autograd function refuse to be recorded for second derivatives.

    torch's ``once_differentiable`` is not enough: it silently gives wrong second derivatives if the incoming gradient
    is a constant, or if derivatives are taken with respect to some tensors only.
    """

    @functools.wraps(backward)
    def marked(ctx: Any, *incoming: Tensor | None) -> tuple[Any, ...]:
        if torch.is_grad_enabled():  # in a backward pass: with create_graph=True
            raise ConfigError(
                "second derivatives (create_graph=True) are not available: the integrator or gradient strategy has"
                " first derivatives only. Use gradient='backprop' and an integrator other than ImplicitMidpoint()."
            )
        return backward(ctx, *incoming)

    return marked
