"""Tensors that carry derivatives through ordinary PyTorch code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Rule = Callable[..., Any]
Series = Callable[[Tensor, int], list[Tensor]]
RULES: dict[Callable[..., Any], Rule] = {}
_GRADIENTS: ContextVar[bool] = ContextVar("gradients are recorded outside", default=False)

_FROM_VALUE = {"shape", "ndim", "dtype", "device", "layout", "requires_grad", "is_cuda", "is_sparse", "is_quantized",
               "is_complex", "is_floating_point", "is_nested", "dim", "ndimension", "numel", "size", "stride", "is_contiguous",
               "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "element_size", "get_device"}  # fmt: skip


class NoRuleError(Exception):
    """An operation met a tensor with derivatives and has no rule for it; callers compute by nested autograd instead."""


class Expansion(ABC):
    """A tensor with derivatives that PyTorch functions and modules take in place of a tensor.

    Every operation that meets one is looked up in ``RULES``. Rules are written in terms of the methods below, so that one
    rule serves all kinds of derivatives.
    """

    value: Tensor

    @property
    def __class__(self) -> type:  # code that asks isinstance(u, Tensor) is meant to go on
        return Tensor

    @abstractmethod
    def linear(self, function: Callable[[Tensor], Tensor]) -> Expansion:
        """A linear map of one tensor, of any shape."""

    @abstractmethod
    def samplewise(self, function: Callable[[Tensor], Tensor]) -> Expansion:
        """A linear map that acts on each entry along the first axis alone; faster than :meth:`linear`."""

    @abstractmethod
    def affine(self, weight: Tensor, bias: Tensor | None) -> Expansion:
        """``torch.nn.functional.linear``."""

    @abstractmethod
    def plus(self, other: Expansion) -> Expansion:
        """The sum with an expansion of the same kind."""

    @abstractmethod
    def shifted(self, constant: Tensor | float) -> Expansion:
        """The sum with a constant."""

    @abstractmethod
    def scaled(self, constant: Tensor | float) -> Expansion:
        """The elementwise product with a constant."""

    @abstractmethod
    def bilinear(self, operation: Callable[[Tensor, Tensor], Tensor], other: Expansion) -> Expansion:
        """A product of two tensors, linear in each: elementwise, of matrices, and so on."""

    @abstractmethod
    def compose(self, series: Series, fused: bool = True) -> Expansion:
        """An elementwise function, given by the Taylor coefficients 0, ..., n of it at a tensor: ``series(u, n)``.

        ``fused`` asks for one coefficient more than the order, for the gradient; without it autograd finds that one.
        """

    @abstractmethod
    def constant(self, value: Tensor) -> Expansion:
        """A constant as an expansion of this kind."""

    @abstractmethod
    def joined(self, function: Callable[[list[Tensor]], Tensor], all_parts: list[Expansion]) -> Expansion:
        """A linear map of several tensors, such as ``torch.cat``."""

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        return apply_rule(function, *args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name in _FROM_VALUE:
            return getattr(self.value, name)
        method = getattr(Tensor, name, None)
        if method is None or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return partial(apply_rule, method, self) if callable(method) else apply_rule(method, self)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    def __getitem__(self, index: Any) -> Any:
        return apply_rule(Tensor.__getitem__, self, index)

    def __neg__(self) -> Expansion:
        return self.scaled(-1.0)

    def __bool__(self) -> bool:
        raise NoRuleError("a condition on values (bool)")


def is_expansion(u: Any) -> bool:
    """Whether a tensor carries derivatives."""
    return isinstance(u, Expansion)


def _binary(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)
    return lambda self, other: apply_rule(method, self, other)


for _name in ("add", "sub", "mul", "truediv", "pow", "matmul"):
    for _side in ("", "r"):
        setattr(Expansion, f"__{_side}{_name}__", _binary(f"__{_side}{_name}__"))
for _name in ("gt", "ge", "lt", "le"):
    setattr(Expansion, f"__{_name}__", _binary(f"__{_name}__"))


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: Expansion, other: Any) -> Expansion:
        return overwrite(self, getattr(self, name)(other))

    return method


for _name in ("add", "sub", "mul", "truediv"):
    setattr(Expansion, f"__i{_name}__", _in_place(f"__{_name}__"))


def overwrite(old: Expansion, new: Expansion) -> Expansion:
    """Make ``old`` what ``new`` is, as an operation in place does."""
    old.__dict__.update(new.__dict__)
    return old


@contextmanager
def differentiable_pass() -> Iterator[None]:
    """Remember whether gradients are recorded, so that operations that lose them inside are noticed."""
    token = _GRADIENTS.set(torch.is_grad_enabled())
    try:
        yield
    finally:
        _GRADIENTS.reset(token)


def apply_rule(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a PyTorch function gives for arguments of which some are expansions.

    Raises:
        NoRuleError: if the function has no rule.
    """
    if _GRADIENTS.get() and not torch.is_grad_enabled():
        raise NoRuleError(f"{operation_name(function)} inside torch.no_grad or a custom autograd function")
    name = getattr(function, "__name__", str(function))
    rule = RULES.get(function)
    in_place = bool(kwargs.pop("inplace", False))
    if rule is None and name.endswith("_") and not name.startswith("__"):
        rule, in_place = RULES.get(getattr(Tensor, name[:-1], function)), True
    if rule is None or "out" in kwargs:
        raise NoRuleError(operation_name(function))
    result = rule(*args, **kwargs)
    return overwrite(args[0], result) if in_place and isinstance(args[0], Expansion) else result


def operation_name(function: Callable[..., Any]) -> str:
    """``torch.nn.functional.pixel_shuffle`` and the like, as a user would write it."""
    name = getattr(function, "__name__", None)
    if name is None or name == "__get__":  # a property of tensors
        return repr(getattr(function, "__self__", function))
    homes = (("torch.nn.functional", F), ("torch", torch), ("torch.Tensor", Tensor))
    home = next((home for home, module in homes if getattr(module, name, None) is function), None)
    return f"{home}.{name}" if home else name


def register_rule(function: Callable[..., Any], rule: Rule) -> None:
    """Teach expansions an operation; a rule that was there is replaced.

    Args:
        function: a PyTorch function or method, such as ``torch.cross``.
        rule: takes the same arguments, of which some are expansions, and gives an expansion. It may use every
            operation that has a rule.

    >>> import torch
    >>> from evolvent.equations import jet, register_rule
    >>> register_rule(torch.hypot, lambda a, b: (a * a + b * b).sqrt())
    >>> x = torch.tensor([3.0])
    >>> [round(d.item(), 4) for d in jet(lambda x: torch.hypot(x, x + 1), x, torch.ones(1), order=2)]
    [5.0, 1.4, 0.008]
    """
    RULES[function] = rule


def register_everywhere(name: str, rule: Rule) -> None:
    """Register a rule for ``torch.name``, ``torch.Tensor.name`` and ``torch.nn.functional.name``, those that exist."""
    for module in (torch, Tensor, F, torch.special, torch._C._nn):
        function = getattr(module, name, None)
        if function is not None:
            register_rule(function, rule)
