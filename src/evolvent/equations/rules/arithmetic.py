"""Sums, products and powers of expansions, tensors and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent.equations.expansion import Expansion, NoRuleError, is_transformed, register_everywhere, register_rule
from evolvent.equations.rules import series


def _as_precise(b: Any, a: Any) -> Any:
    """A constant in the precision in which PyTorch takes it together with ``a``, before anything is done to it."""
    plain = isinstance(b, Tensor) and not isinstance(b, Expansion)
    return b.to(torch.promote_types(b.dtype, a.value.dtype)) if plain else b


def add(a: Any, b: Any, *, alpha: float = 1) -> Expansion:
    if alpha != 1:
        b = _as_precise(b, a) * alpha
    if isinstance(a, Expansion):
        return a.plus(b) if isinstance(b, Expansion) else a.shifted(b)
    return b.shifted(a)


def subtract(a: Any, b: Any, *, alpha: float = 1) -> Expansion:
    b = _as_precise(b, a)
    return add(a, -b if alpha == 1 else b * -alpha)


def multiply(a: Any, b: Any) -> Expansion:
    if isinstance(a, Expansion):
        return a.bilinear(torch.mul, b) if isinstance(b, Expansion) else a.scaled(b)
    return b.scaled(a)


def divide(a: Any, b: Any, *, rounding_mode: str | None = None) -> Expansion:
    if rounding_mode is not None:
        raise NoRuleError("torch.div with rounding")
    return multiply(a, b.compose(series.power(-1.0)) if isinstance(b, Expansion) else 1 / _as_precise(b, a))


def power(base: Any, exponent: Any) -> Expansion:
    if isinstance(exponent, int | float):
        return base.compose(series.power(exponent))
    if not isinstance(exponent, Expansion):
        wide = base.shifted(0 * exponent)  # which also tells autograd of exponents that are learned
        return wide.compose(series.powers(exponent.to(wide.dtype)), fused=not exponent.requires_grad)
    base = _as_precise(base, exponent) if isinstance(base, Tensor) else exponent.new_tensor(base)
    if _reaches_zero(base.value if isinstance(base, Expansion) else base):
        raise NoRuleError("a power of a base that is not positive")
    logarithm = base.compose(series.log) if isinstance(base, Expansion) else torch.log(base)
    return multiply(exponent, logarithm).compose(series.exp)


def _reaches_zero(base: Tensor) -> bool:
    """Whether some entry has no real logarithm; what torch.vmap hides is taken for positive."""
    return not base.is_complex() and not is_transformed(base) and bool((base <= 0).any())


def _reversed(rule: Callable[[Any, Any], Expansion]) -> Callable[[Any, Any], Expansion]:
    return lambda b, a: rule(a, b)


BINARY = {
    "add": (add, "__add__", "__radd__"), "sub": (subtract, "__sub__", "__rsub__"),
    "mul": (multiply, "__mul__", "__rmul__"), "div": (divide, "__truediv__", "__rtruediv__"),
    "pow": (power, "__pow__", "__rpow__"),
}  # fmt: skip
for _name, (_rule, _left, _right) in BINARY.items():
    register_everywhere(_name, _rule)
    register_rule(getattr(Tensor, _left), _rule)
    register_rule(getattr(Tensor, _right), _reversed(_rule))
for _name, _rule in {"subtract": subtract, "multiply": multiply, "divide": divide, "true_divide": divide}.items():
    register_everywhere(_name, _rule)
register_everywhere("neg", lambda u: u.scaled(-1.0))
register_rule(Tensor.__neg__, lambda u: u.scaled(-1.0))
register_everywhere("rsub", lambda b, a: subtract(a, b))


def product_of(operation: Callable[..., Tensor]) -> Callable[[Any, Any], Expansion]:
    """The rule of an operation that is linear in each of two arguments."""

    def rule(a: Any, b: Any) -> Expansion:
        if not isinstance(a, Expansion):
            return b.linear(lambda part: operation(a, part))
        return a.bilinear(operation, b) if isinstance(b, Expansion) else a.linear(lambda part: operation(part, b))

    return rule


matrix_product = product_of(torch.matmul)
for _name in ("matmul", "mm", "bmm", "mv", "dot"):
    register_everywhere(_name, matrix_product)
register_rule(Tensor.__matmul__, matrix_product)
register_rule(Tensor.__rmatmul__, _reversed(matrix_product))


def einsum(equation: str, *operands: Any) -> Expansion:
    if len(operands) == 1:
        return operands[0].linear(lambda part: torch.einsum(equation, part))
    if len(operands) > 2:
        raise NoRuleError("torch.einsum of more than two tensors")
    return product_of(lambda a, b: torch.einsum(equation, a, b))(*operands)


def softmax(u: Any, dim: int | None = None, *options: Any, dtype: torch.dtype | None = None, **_: Any) -> Expansion:
    u, dim = _converted(u, dtype, options), _axis(u, dim)
    weights = (u - u.value.detach().amax(dim, keepdim=True)).compose(series.exp)
    return weights / weights.sum(dim, keepdim=True)


def log_softmax(
    u: Any, dim: int | None = None, *options: Any, dtype: torch.dtype | None = None, **_: Any
) -> Expansion:
    u, dim = _converted(u, dtype, options), _axis(u, dim)
    return u - logsumexp(u, dim, keepdim=True)


def _converted(u: Any, dtype: torch.dtype | None, options: Sequence[Any]) -> Any:
    """In the precision asked for, which some of the functions take by position."""
    dtype = next((one for one in options if isinstance(one, torch.dtype)), dtype)
    return u if dtype is None else u.to(dtype)


def _axis(u: Any, dim: int | None) -> int:
    """The axis that PyTorch takes where none is given."""
    if dim is None:
        return 0 if u.ndim in (0, 1, 3) else 1
    return dim


def logsumexp(u: Any, dim: int, keepdim: bool = False) -> Expansion:
    top = u.value.detach().amax(dim, keepdim=True)
    total = (u - top).compose(series.exp).sum(dim, keepdim=True).compose(series.log) + top
    return total if keepdim else total.squeeze(dim)


register_rule(torch.einsum, einsum)
register_everywhere("softmax", softmax)
register_everywhere("log_softmax", log_softmax)
register_everywhere("logsumexp", logsumexp)
register_rule(F.bilinear, lambda a, b, weight, bias=None: _bilinear(a, b, weight, bias))


def _bilinear(a: Any, b: Any, weight: Tensor, bias: Tensor | None) -> Expansion:
    out = product_of(lambda x, y: F.bilinear(x, y, weight))(a, b)
    return out if bias is None else out.shifted(bias)
