"""Operations that choose among entries by value: maxima, maximum pooling, comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent.equations.expansion import Expansion, Rule, register_everywhere, register_rule


def where(condition: Tensor, a: Any, b: Any) -> Expansion:
    """Entries of ``a`` where the condition holds, of ``b`` elsewhere."""
    kind = a if isinstance(a, Expansion) else b
    a, b = (one if isinstance(one, Expansion) else kind.constant(_promoted(one, kind.value)) for one in (a, b))
    return kind.joined(lambda parts: torch.where(condition, parts[0], parts[1]), [a, b])


def _promoted(constant: Any, like: Tensor) -> Tensor:
    """In the precision of the result that PyTorch makes of both."""
    return torch.as_tensor(constant, device=like.device).to(torch.result_type(like, constant))


def _value(u: Any) -> Any:
    return u.value.detach() if isinstance(u, Expansion) else u


def maximum(a: Any, b: Any) -> Expansion:
    return where(torch.as_tensor(_value(a) >= _value(b)), a, b)


def minimum(a: Any, b: Any) -> Expansion:
    return where(torch.as_tensor(_value(a) <= _value(b)), a, b)


register_rule(torch.where, where)
register_rule(Tensor.where, lambda a, condition, b: where(condition, a, b))
register_everywhere("maximum", maximum)
register_everywhere("minimum", minimum)
register_everywhere("masked_fill", lambda u, mask, value: where(~mask, u, value))


def extremum(choose: Callable[..., Tensor], other: Callable[[Any, Any], Expansion]) -> Rule:
    """``torch.max`` and ``torch.min``: of all, along an axis (with indices), or of two tensors."""

    def rule(u: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return u.flatten()[choose(u.value.flatten(), 0)]
        if not isinstance(dim, int):
            return other(u, dim)
        places = choose(u.value, dim, keepdim=True)
        best = u.linear(lambda part: part.gather(dim, places))
        return (best, places) if keepdim else (best.squeeze(dim), places.squeeze(dim))

    return rule


register_everywhere("max", extremum(torch.argmax, maximum))
register_everywhere("min", extremum(torch.argmin, minimum))


def max_pooling(function: Callable[..., tuple[Tensor, Tensor]], axes: int, with_places: bool) -> Rule:
    """Every coefficient is taken where the value is largest."""

    def rule(u: Expansion, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("return_indices", None)
        _, places = function(u.value.detach(), *args, **kwargs)
        chosen = places.flatten(-axes)
        best = u.linear(lambda part: part.flatten(-axes).gather(-1, chosen).view(places.shape))
        return (best, places) if with_places else best

    return rule


for _axes in (1, 2, 3):
    _pool = getattr(F, f"max_pool{_axes}d_with_indices")
    _adaptive = getattr(F, f"adaptive_max_pool{_axes}d_with_indices")
    register_everywhere(f"max_pool{_axes}d", max_pooling(_pool, _axes, with_places=False))
    register_everywhere(f"adaptive_max_pool{_axes}d", max_pooling(_adaptive, _axes, with_places=True))
    register_rule(getattr(F, f"adaptive_max_pool{_axes}d"), max_pooling(_adaptive, _axes, with_places=False))
    register_rule(_pool, max_pooling(_pool, _axes, with_places=True))
    register_rule(_adaptive, max_pooling(_adaptive, _axes, with_places=True))


def compared(operation: Callable[..., Tensor]) -> Rule:
    """Comparisons look at values alone; their answers have no derivatives."""
    return lambda a, b: operation(_value(a), _value(b))


for _name in ("gt", "ge", "lt", "le", "eq", "ne"):
    register_everywhere(_name, compared(getattr(torch, _name)))
    register_rule(getattr(Tensor, f"__{_name}__"), compared(getattr(torch, _name)))


def prelu(u: Any, weight: Tensor) -> Expansion:
    shape = (-1, *(1,) * (u.ndim - 2)) if weight.numel() > 1 else (1,)
    return where(u.value > 0, u, u * weight.view(shape))


register_everywhere("prelu", prelu)
