"""Operations that are linear: every coefficient goes through them alike, and a bias is added to the value alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent.equations.expansion import Expansion, NoRuleError, Rule, register_everywhere, register_rule


def linear(function: Callable[..., Any]) -> Rule:
    """The rule of an operation that is linear in its first argument; the others are constants."""

    def rule(u: Expansion, *args: Any, **kwargs: Any) -> Expansion:
        return u.linear(lambda part: function(part, *args, **kwargs))

    return rule


LINEAR = (
    "reshape", "view", "flatten", "unflatten", "ravel", "squeeze", "unsqueeze", "permute", "transpose", "movedim", "t", "swapaxes",
    "contiguous", "clone", "to", "type", "float", "double", "expand", "expand_as", "repeat", "tile", "broadcast_to", "flip",
    "roll", "narrow", "select", "index_select", "gather", "sum", "mean", "cumsum", "diff", "trace", "diagonal", "diag", "tril", "triu",
    "pad", "unfold", "take_along_dim", "view_as", "reshape_as", "type_as", "pixel_shuffle", "pixel_unshuffle",
    "interpolate", "fold", "swapdims", "moveaxis",
)  # fmt: skip


def register_linear(function: Callable[..., Any]) -> None:
    """Teach expansions an operation that is linear in its first argument.

    Args:
        function: a PyTorch function; the other arguments are constants.

    >>> import torch
    >>> from evolvent.equations import jet, register_linear
    >>> register_linear(torch.rot90)
    >>> x = torch.arange(4.0).view(2, 2)
    >>> jet(torch.rot90, x, torch.ones(2, 2), order=1)[0].tolist()
    [[1.0, 3.0], [0.0, 2.0]]
    """
    register_rule(function, linear(function))


for _name in LINEAR:
    for _home in (torch, Tensor, F):
        if hasattr(_home, _name):
            register_linear(getattr(_home, _name))
for _property in ("T", "mT"):
    _getter = getattr(Tensor, _property).__get__
    register_rule(getattr(Tensor, _property), linear(_getter))
    register_rule(_getter, linear(_getter))


def affine(u: Any, weight: Any, bias: Any = None) -> Expansion:
    if not isinstance(weight, Expansion) and not isinstance(bias, Expansion):
        return u.affine(weight, bias)
    out = u @ weight.transpose(-1, -2)
    return out if bias is None else out + bias


register_rule(F.linear, affine)


def convolution(function: Callable[..., Tensor], ndim: int) -> Rule:
    def rule(u: Any, weight: Any, bias: Tensor | None = None, *args: Any, **kwargs: Any) -> Expansion:
        if isinstance(weight, Expansion) or isinstance(bias, Expansion):
            raise NoRuleError(f"{function.__name__} with weights that depend on the input")
        apply = u.samplewise if u.ndim == ndim + 2 else u.linear
        out = apply(lambda part: function(part, weight, None, *args, **kwargs))
        return out if bias is None else out.shifted(bias.view(-1, *(1,) * ndim))

    return rule


for _ndim in (1, 2, 3):
    for _name in (f"conv{_ndim}d", f"conv_transpose{_ndim}d"):
        register_rule(getattr(torch, _name), convolution(getattr(torch, _name), _ndim))


def _pooling(function: Callable[..., Tensor], ndim: int) -> Rule:
    def rule(u: Expansion, *args: Any, **kwargs: Any) -> Expansion:
        apply = u.samplewise if u.ndim == ndim + 2 else u.linear
        return apply(lambda part: function(part, *args, **kwargs))

    return rule


for _ndim in (1, 2, 3):
    for _name in (f"avg_pool{_ndim}d", f"adaptive_avg_pool{_ndim}d"):
        for _function in {getattr(F, _name), getattr(torch, _name, getattr(F, _name))}:
            register_rule(_function, _pooling(_function, _ndim))


def several(function: Callable[..., Any]) -> Rule:
    """The rule of a function that joins a list of tensors, some of which may be constants."""

    def rule(tensors: Sequence[Any], *args: Any, **kwargs: Any) -> Expansion:
        kind = next(one for one in tensors if isinstance(one, Expansion))
        lifted = [one if isinstance(one, Expansion) else kind.constant(one) for one in tensors]
        return kind.joined(lambda parts: function(parts, *args, **kwargs), lifted)

    return rule


for _name in ("cat", "concat", "concatenate", "stack", "hstack", "vstack"):
    register_rule(getattr(torch, _name), several(getattr(torch, _name)))


def pieces(function: Callable[..., Any]) -> Rule:
    """The rule of a function that cuts a tensor into several."""

    def rule(u: Expansion, *args: Any, **kwargs: Any) -> tuple[Expansion, ...]:
        count = len(function(u.value, *args, **kwargs))
        return tuple(u.linear(lambda part, i=i: function(part, *args, **kwargs)[i]) for i in range(count))

    return rule


for _name in ("chunk", "split", "unbind", "tensor_split"):
    register_rule(getattr(torch, _name), pieces(getattr(torch, _name)))
    register_rule(getattr(Tensor, _name), pieces(getattr(Tensor, _name)))


def item(u: Expansion, index: Any) -> Expansion:
    entries = index if isinstance(index, tuple) else (index,)
    if any(isinstance(one, Tensor) and one.dtype == torch.bool for one in entries):
        places = u.value.new_zeros(u.shape).detach()
        flat = torch.arange(places.numel(), device=places.device).view(u.shape)[index]
        return u.linear(lambda part: part.flatten()[flat])
    return u.linear(lambda part: part[index])


register_rule(Tensor.__getitem__, item)


def dropout(function: Callable[..., Tensor]) -> Rule:
    """One mask for all coefficients, the one that the value alone would get."""

    def rule(u: Expansion, p: float = 0.5, training: bool = True, inplace: bool = False) -> Expansion:
        return u.scaled(function(torch.ones_like(u.value), p, training)) if training else u

    return rule


for _name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
    register_rule(getattr(F, _name), dropout(getattr(F, _name)))


def _constant(function: Callable[..., Any]) -> Rule:
    return lambda u, *args, **kwargs: function(u.value.detach(), *args, **kwargs)


for _name in ("detach", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "sign", "isnan",
              "isfinite", "argmax", "argmin", "floor", "ceil", "round"):  # fmt: skip
    register_everywhere(_name, _constant(getattr(torch, _name)))
