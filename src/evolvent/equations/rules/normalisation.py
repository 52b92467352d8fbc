"""Normalisations: their statistics are functions of the input too, so they are written out in arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from evolvent.equations.expansion import Expansion, Rule, register_everywhere, register_rule


def standardised(u: Any, dims: Sequence[int], eps: float) -> Any:
    """Mean 0 and variance 1 over the axes."""
    centred = u - u.mean(dims, keepdim=True)
    return centred * ((centred * centred).mean(dims, keepdim=True) + eps) ** -0.5


def per_channel(u: Any, weight: Tensor | None, bias: Tensor | None) -> Any:
    """Scale and shift of the channels, which are axis 1."""
    shape = (-1, *(1,) * (u.ndim - 2))
    u = u if weight is None else u * weight.view(shape)
    return u if bias is None else u + bias.view(shape)


def layer_norm(u: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    u = standardised(u, tuple(range(-len(shape), 0)), eps)
    u = u if weight is None else u * weight
    return u if bias is None else u + bias


def rms_norm(u: Any, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    dims = tuple(range(-len(shape), 0))
    eps = torch.finfo(u.dtype).eps if eps is None else eps
    u = u * ((u * u).mean(dims, keepdim=True) + eps) ** -0.5
    return u if weight is None else u * weight


def group_norm(u: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    grouped = u.reshape(u.shape[0], num_groups, -1)
    return per_channel(standardised(grouped, (2,), eps).reshape(u.shape), weight, bias)


def batch_norm(
    u: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    if not training:
        scale = (running_var + eps).rsqrt()
        return per_channel(per_channel(u, scale, -running_mean * scale), weight, bias)
    if running_mean is not None:
        with torch.no_grad():
            F.batch_norm(_value(u), running_mean, running_var, None, None, True, momentum, eps)
    return per_channel(standardised(u, (0, *range(2, u.ndim)), eps), weight, bias)


def instance_norm(
    u: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    if not use_input_stats:
        return batch_norm(u, running_mean, running_var, weight, bias, False, momentum, eps)
    if running_mean is not None:
        with torch.no_grad():
            F.instance_norm(_value(u), running_mean, running_var, None, None, True, momentum, eps)
    return per_channel(standardised(u, tuple(range(2, u.ndim)), eps), weight, bias)


def _value(u: Any) -> Tensor:
    return u.value if isinstance(u, Expansion) else u


NORMALISATIONS: dict[Callable[..., Any], Rule] = {
    F.layer_norm: layer_norm, F.rms_norm: rms_norm, F.group_norm: group_norm, F.batch_norm: batch_norm,
    F.instance_norm: instance_norm,
}  # fmt: skip


def _hardsigmoid(u: Tensor, inplace: bool = False) -> Tensor:
    found = ((u + 3) / 6).clamp(0, 1)
    return u.copy_(found) if inplace else found


class WrittenOut(TorchFunctionMode):
    """Inside of it, what PyTorch cannot differentiate twice is made of arithmetic.

    Its own normalisations take the statistics for constants from the second derivative on, and give wrong ones; its
    hard sigmoid has one derivative only.
    """

    written = {**NORMALISATIONS, F.hardsigmoid: _hardsigmoid}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        chosen: Any = self.written.get(function, function)
        return chosen(*args, **(kwargs or {}))


def variance(u: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> Any:
    dims = tuple(range(u.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    centred = u - u.mean(dims, keepdim=True)
    count = torch.tensor([u.shape[d] for d in dims]).prod().item()
    return (centred * centred).sum(dims, keepdim=keepdim) / (count - (unbiased if correction is None else correction))


for _function, _rule in NORMALISATIONS.items():
    register_rule(_function, _rule)
register_everywhere("var", variance)
register_everywhere("std", lambda u, *args, **kwargs: variance(u, *args, **kwargs) ** 0.5)
