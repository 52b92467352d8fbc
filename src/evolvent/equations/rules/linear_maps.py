"""Operations that are linear: every coefficient goes through them alike, and a bias is added to the value alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent.equations.expansion import (
    Expansion,
    NoRuleError,
    Rule,
    register_everywhere,
    register_rule,
    share_memory,
)


def linear(function: Callable[..., Any]) -> Rule:
    """The rule of an operation that is linear in its first argument; the others are constants."""

    may_round = function in CONVERSIONS

    def rule(u: Expansion, *args: Any, **kwargs: Any) -> Any:
        plain = [arg.value.detach() if isinstance(arg, Expansion) else arg for arg in args]
        if len(plain) and isinstance(args[0], Expansion) and not function.__name__.endswith("_as"):
            raise NoRuleError(f"{function.__name__} with two arguments that depend on the input")
        if may_round or "dtype" in kwargs:
            converted = function(u.value.detach(), *plain, **kwargs)
            if not converted.is_floating_point() and not converted.is_complex():
                return converted  # whole numbers, which have no derivatives
        return u.linear(lambda part: function(part, *plain, **kwargs))

    return rule


def viewing(rule: Callable[..., Expansion]) -> Rule:
    """The rule of an operation whose result may share memory with its first argument."""
    return lambda u, *args, **kwargs: share_memory(u, rule(u, *args, **kwargs))


CONVERSIONS = (Tensor.to, Tensor.type_as)
VIEWS = (
    "reshape", "view", "flatten", "unflatten", "ravel", "squeeze", "unsqueeze", "permute", "transpose", "movedim", "t",
    "swapaxes", "swapdims", "contiguous", "float", "double", "expand", "broadcast_to", "narrow", "select",
    "diagonal", "unfold", "view_as", "reshape_as", "expand_as",
    "to", "type_as",
)  # fmt: skip
COPIES = (
    "clone", "repeat", "tile", "flip", "roll", "index_select", "gather", "sum", "mean", "cumsum", "trace", "diag",
    "tril", "triu", "fold", "take_along_dim", "pixel_shuffle", "pixel_unshuffle", "interpolate",
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


for _home in (torch, Tensor, F):
    for _name in VIEWS:
        if hasattr(_home, _name):
            register_rule(getattr(_home, _name), viewing(linear(getattr(_home, _name))))
    for _name in COPIES:
        if hasattr(_home, _name):
            register_linear(getattr(_home, _name))
register_everywhere("moveaxis", viewing(linear(torch.movedim)))  # vmap knows it by its other name only
for _property in ("T", "mT"):
    _getter = getattr(Tensor, _property).__get__
    register_rule(_getter, viewing(lambda u, *_, _getter=_getter: u.linear(lambda part: _getter(part))))


def difference(u: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Expansion:
    whole = torch.cat([part for part in (prepend, u, append) if part is not None], dim)
    return whole.linear(lambda part: torch.diff(part, n, dim))  # pyright: ignore[reportAttributeAccessIssue]


register_everywhere("diff", difference)


def pad(u: Expansion, widths: Sequence[int], mode: str = "constant", value: float | None = None) -> Expansion:
    if mode == "constant":
        margin = F.pad(torch.zeros_like(u.value), widths, value=value) if value else 0.0
        return u.linear(lambda part: F.pad(part, widths)).shifted(margin)
    fold = u.samplewise if u.ndim > len(widths) // 2 + 1 else u.linear  # other modes look at how many axes there are
    return fold(lambda part: F.pad(part, widths, mode))


register_rule(F.pad, pad)


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
        parts = (u.linear(lambda part, i=i: function(part, *args, **kwargs)[i]) for i in range(count))
        return tuple(share_memory(u, part) for part in parts)

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


register_rule(Tensor.__getitem__, viewing(item))


def _of_value(function: Callable[..., Any]) -> Rule:
    return lambda u, *args, **kwargs: function(u.value, *args, **kwargs)


def dropout(function: Callable[..., Tensor]) -> Rule:
    """One mask for all coefficients, the one that the value alone would get."""

    def rule(u: Expansion, p: float = 0.5, training: bool = True, inplace: bool = False) -> Expansion:
        return u.scaled(function(torch.ones_like(u.value), p, training)) if training else u

    return rule


for _name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
    register_rule(getattr(F, _name), dropout(getattr(F, _name)))


for _name in ("dim", "ndimension", "numel", "size", "stride", "is_contiguous", "is_floating_point", "is_complex",
              "__len__", "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "get_device"):  # fmt: skip
    register_rule(getattr(Tensor, _name), _of_value(getattr(Tensor, _name)))
for _name in ("shape", "ndim", "dtype", "device", "layout", "requires_grad", "is_cuda", "is_sparse", "is_quantized",
              "is_nested"):  # fmt: skip
    register_rule(getattr(Tensor, _name).__get__, _of_value(getattr(Tensor, _name).__get__))
register_rule(Tensor.__repr__, lambda u, **_: f"{type(u).__name__}(shape={tuple(u.shape)}, dtype={u.dtype})")
register_rule(Tensor.__iter__, lambda u: iter(u.unbind(0)))


def _constant(function: Callable[..., Any]) -> Rule:
    return lambda u, *args, **kwargs: function(u.value.detach(), *args, **kwargs)


for _name in ("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "sign",
              "isnan", "isfinite", "argmax", "argmin", "floor", "ceil", "round"):  # fmt: skip
    register_everywhere(_name, _constant(getattr(torch, _name)))
register_everywhere("detach", lambda u: share_memory(u, u.value.detach()))
