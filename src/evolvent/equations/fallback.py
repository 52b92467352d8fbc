"""Derivatives by nested autograd, for functions with operations that have no rule."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from evolvent._core.errors import ConfigError
from evolvent.equations.algebra import Index
from evolvent.equations.expansion import NoRuleError
from evolvent.equations.rules.normalisation import WrittenOut

# What plain code raises when it is given something that is almost a tensor. Code that is wrong raises it again below.
NOT_SUPPORTED = (NoRuleError, TypeError, AttributeError, NotImplementedError)


class JetFallbackWarning(UserWarning):
    """An operation has no rule, so derivatives are computed by nested autograd: right, but slower."""


def warn_of_fallback(error: BaseException) -> None:
    """Say which operation, in which module, could not be done."""
    module = _innermost_module(error.__traceback__)
    place = f" (in {module})" if module else ""
    advice = "evolvent.equations.register_rule can teach it."
    what = f"{error} has no rule" if isinstance(error, NoRuleError) else f"Code{place} takes only tensors ({error})"
    place = place if isinstance(error, NoRuleError) else ""
    text = f"{what}{place}: derivatives are computed by nested autograd, which is slower. {advice}"
    warnings.warn(text, JetFallbackWarning, stacklevel=4)


def _innermost_module(traceback: TracebackType | None) -> str | None:
    found = None
    while traceback is not None:
        owner = traceback.tb_frame.f_locals.get("self")
        found = type(owner).__name__ if isinstance(owner, nn.Module) else found
        traceback = traceback.tb_next
    return found


@contextmanager
def buffers_settled(f: Callable[..., Any]) -> Iterator[None]:
    """Undo what an unfinished pass did to running statistics, since the pass is made again.

    A pass around which no gradients are recorded leaves none of them in buffers.
    """
    buffers = list(f.buffers()) if isinstance(f, nn.Module) else []
    before = [buffer.clone() for buffer in buffers]
    try:
        yield
    except NOT_SUPPORTED:
        with torch.no_grad():
            for buffer, old in zip(buffers, before, strict=True):
                buffer.copy_(old)
        raise
    if isinstance(f, nn.Module) and not torch.is_grad_enabled():
        for buffer in f.buffers():
            if buffer.grad_fn is not None:
                buffer.detach_()


def nested_derivatives(
    f: Callable[..., Tensor], inputs: Sequence[Tensor], directions: Sequence[Sequence[Tensor]], indices: Sequence[Index]
) -> dict[Index, Tensor]:
    r"""Derivatives of :math:`s \mapsto f(x + \sum_i s_i d_i)` at 0, one autograd inside the other.

    Args:
        f: a function of tensors.
        inputs: its arguments.
        directions: for each variable :math:`s_i`, a tensor for each input.
        indices: a lower set of multi-indices, sorted by degree.
    """
    record = torch.is_grad_enabled()
    with _recording():
        inputs, directions = _recordable(inputs), [_recordable(row) for row in directions]
        steps = [inputs[0].new_zeros(()).requires_grad_() for _ in directions]
        moved = [x + sum(s * d[n] for s, d in zip(steps, directions, strict=True)) for n, x in enumerate(inputs)]
        with _missing_derivatives_named():
            with WrittenOut(), sdpa_kernel(SDPBackend.MATH):  # fused attention has one derivative
                found = {indices[0]: f(*moved)}
            for index in indices[1:]:
                axis = max(i for i, n in enumerate(index) if n)
                below = tuple(n - (i == axis) for i, n in enumerate(index))
                found[index] = _slope(found[below], steps[axis])
    return found if record else {index: u.detach() for index, u in found.items()}


@contextmanager
def _recording() -> Iterator[None]:
    leave = torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()
    with leave, torch.enable_grad():
        yield


def _recordable(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors that were made in inference mode are not kept for gradients; copies of them are."""
    return [t.clone() if t.is_inference() else t for t in tensors]


@contextmanager
def _missing_derivatives_named() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # of which NotImplementedError is a kind
        if "derivative for" not in str(error):
            raise
        said = str(error).splitlines()[0][:120]
        raise ConfigError(
            f"an operation of f has fewer derivatives in PyTorch than were asked for ({said}). Use another one, ask "
            "for a lower order, or teach it with evolvent.equations.register_rule."
        ) from error


def _slope(u: Tensor, step: Tensor) -> Tensor:
    """The derivative of every entry of a tensor with respect to one number, by differentiating backwards twice."""
    if not u.requires_grad:
        return torch.zeros_like(u)
    weights = torch.zeros_like(u, requires_grad=True)
    (transposed,) = torch.autograd.grad(u, step, weights, create_graph=True, allow_unused=True)
    if transposed is None or not transposed.requires_grad:
        return torch.zeros_like(u)
    (slope,) = torch.autograd.grad(transposed, weights, create_graph=True, allow_unused=True)
    return torch.zeros_like(u) if slope is None else slope
