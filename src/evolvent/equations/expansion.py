"""Tensors that carry derivatives through ordinary PyTorch code."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_numbers, described
from evolvent._core.errors import ShapeError
from evolvent._core.first_order import CarriesDerivatives

Rule = Callable[..., Any]
Shared = TypeVar("Shared", bound=Tensor)
Series = Callable[[Tensor, int], list[Tensor]]
RULES: dict[Callable[..., Any], Rule] = {}
_RECORDED: ContextVar[bool | None] = ContextVar("gradients are recorded around the pass", default=None)

_RESHAPING = ("unsqueeze_", "squeeze_", "t_", "transpose_", "swapaxes_", "swapdims_")  # in place
_NN: Any = vars(torch._C)["_nn"]  # where some functions really live


def check_inputs(f: Callable[..., Any], inputs: Iterable[Tensor]) -> None:
    """Refuse numbers that have no derivatives, or that are not those a network computes with."""
    for x in inputs:
        if not isinstance(x, Tensor):
            raise ShapeError(f"derivatives are taken at a tensor, got {type(x).__name__}. Use torch.as_tensor.")
        if not x.is_floating_point() and not x.is_complex():
            raise ShapeError(f"derivatives are taken at floating-point numbers, got {described(x)}. Use x.double().")
        if isinstance(f, nn.Module):
            check_numbers(x, f, type(f).__name__)


class NoRuleError(Exception):
    """An operation met a tensor with derivatives and has no rule for it; callers compute by nested autograd instead."""


class Expansion(CarriesDerivatives, Tensor):
    """A tensor with derivatives that PyTorch functions and modules take in place of a tensor.

    Every operation that meets one is looked up in ``RULES``. Rules are written in terms of the methods below, so that
    one rule serves all kinds of derivatives.
    """

    @staticmethod
    def __new__(cls: type, value: Tensor, *_: Any) -> Any:
        return Tensor._make_wrapper_subclass(cls, value.shape, dtype=value.dtype, device=value.device)

    @property
    @abstractmethod
    def value(self) -> Tensor:
        """The tensor itself."""

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

        ``fused`` asks for one coefficient more than the order, for the gradient; without it autograd finds that one,
        and the gradients of parameters that the series has.
        """

    @abstractmethod
    def constant(self, value: Tensor) -> Expansion:
        """A constant as an expansion of this kind."""

    @abstractmethod
    def joined(self, function: Callable[[Sequence[Any]], Tensor], all_parts: list[Expansion]) -> Expansion:
        """A linear map of several tensors, such as ``torch.cat``."""

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        return apply_rule(function, *args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(
        cls, function: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types, args, kwargs
        raise NoRuleError(f"{function} (from compiled code)")


def is_transformed(u: Tensor) -> bool:
    """Whether the tensor belongs to a transform of ``torch.func``, so that its memory cannot be read."""
    functorch: Any = vars(torch._C)["_functorch"]
    return functorch.is_functorch_wrapped_tensor(u)


def share_memory(u: Expansion, view: Shared) -> Shared:
    """Remember that an operation in place on one of the two would change the other."""
    family = vars(u).setdefault("family", [ref(u)])
    family.append(ref(view))
    vars(view)["family"] = family
    return view


def overwrite(old: Any, new: Tensor, name: str) -> Expansion:
    """Make ``old`` what ``new`` is, as an operation in place does."""
    if not isinstance(old, Expansion):
        raise NoRuleError(f"{name} into a tensor that does not depend on the input")
    family = [member() for member in vars(old).get("family", ())]
    if any(member is not None and member is not old and member is not new for member in family):
        raise NoRuleError(f"{name} on a tensor that shares memory with another")
    if not isinstance(new, Expansion):  # a constant, such as the whole part
        new = old.constant(new)
    same_shape = new.shape == old.shape or name.rpartition(".")[2] in _RESHAPING
    if not same_shape or not torch.can_cast(new.dtype, old.dtype):
        raise NoRuleError(f"{name} with a result of another kind")
    if new.dtype != old.dtype:
        new = new.linear(lambda part: part.to(old.dtype))
    vars(old).update(vars(new))
    return old


@contextmanager
def differentiable_pass() -> Iterator[None]:
    """Notice operations that lose gradients inside, also where none are recorded: then each rule records none."""
    token = _RECORDED.set(torch.is_grad_enabled())
    try:
        with torch.enable_grad():
            yield
    finally:
        _RECORDED.reset(token)


def apply_rule(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a PyTorch function gives for arguments of which some are expansions.

    Raises:
        NoRuleError: if the function has no rule.
    """
    recorded = _RECORDED.get()
    if recorded is not None and not torch.is_grad_enabled():
        raise NoRuleError(f"{operation_name(function)} inside torch.no_grad or a custom autograd function")
    if recorded is not False:
        return _applied(function, args, kwargs)
    token = _RECORDED.set(None)  # rules are made of operations that come here too
    try:
        with torch.no_grad():
            return _applied(function, args, kwargs)
    finally:
        _RECORDED.reset(token)


def _applied(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = getattr(function, "__name__", str(function))
    rule = RULES.get(function)
    in_place = bool(kwargs.pop("inplace", False))
    if rule is None and (plain := _without_assignment(name)):
        rule, in_place = RULES.get(getattr(Tensor, plain, function)), True
    if rule is None or "out" in kwargs:
        raise NoRuleError(operation_name(function))
    result = rule(*args, **kwargs)
    return overwrite(args[0], result, operation_name(function)) if in_place else result


def _without_assignment(name: str) -> str | None:
    """``add`` for ``add_``, ``__mul__`` for ``__imul__``; None for names that do not assign."""
    if name.startswith("__i"):
        return f"__{name[3:]}"
    return name[:-1] if name.endswith("_") and not name.startswith("__") else None


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
    for module in (torch, Tensor, F, torch.special, _NN):
        function = getattr(module, name, None)
        if function is not None:
            register_rule(function, rule)
