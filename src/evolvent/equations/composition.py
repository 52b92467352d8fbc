"""Elementwise functions of power series, with the derivatives of the result written by hand."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from evolvent._core.native import native_library
from evolvent.equations.algebra import Algebra
from evolvent.equations.expansion import Series, is_transformed
from evolvent.equations.rules.series import tanh

_SOURCE = Path(__file__).with_suffix(".cpp")
_MOST = 16  # coefficients that the kernel has room for
_WORTH_IT = 4096  # elements; below, the call costs as much as it saves


def composed(parts: Tensor, series: Series, algebra: Algebra, fused: bool = True) -> Tensor:
    r"""Coefficients of :math:`\varphi(u) = \sum_p \varphi_p(u_0) (u - u_0)^p`.

    Args:
        parts: coefficients of u, (len(algebra.indices), ...).
        series: gives the Taylor coefficients :math:`\varphi_0, \dots, \varphi_n` at a tensor.
        fused: write the gradient by hand, which needs one coefficient more; not where the series has parameters of its
            own.
    """
    if fused and parts.requires_grad and torch.is_grad_enabled():
        return _Composition.apply(parts, series, algebra)[0]  # pyright: ignore[reportOptionalSubscript]
    taped = parts.requires_grad or (not fused and torch.is_grad_enabled())
    kernel = None if taped or is_transformed(parts) else _kernel("forward", parts, algebra)
    if kernel is not None:
        return _native_forward(kernel, parts.contiguous(), series, algebra, with_slope=False)[0]
    return _summed(parts, series(parts[0], algebra.order), algebra)


def _summed(parts: Tensor, coefficients: list[Tensor], algebra: Algebra) -> Tensor:
    rows = [coefficients[0], *(coefficients[1] * part for part in parts[1:])] if algebra.order else [coefficients[0]]
    for coefficient, power in zip(coefficients[2:], algebra.powers(parts)[1:], strict=False):
        for k, part in power.items():
            rows[k] = rows[k].addcmul(coefficient, part)
    return torch.stack(rows)


def slope_of(series: Series) -> Series:
    """The series of the derivative."""
    return lambda u, order: [p * c for p, c in enumerate(series(u, order + 1)) if p]


class _Composition(Function):
    r"""The same with :math:`P = \varphi'(u)`: :math:`\delta \varphi(u) = P\,\delta u`, so gradients are products by P.

    It can be differentiated again.
    """

    @staticmethod
    def forward(parts: Tensor, series: Series, algebra: Algebra) -> tuple[Tensor, Tensor]:
        kernel = _kernel("forward", parts, algebra)
        if kernel is not None:
            return _native_forward(kernel, parts.contiguous(), series, algebra, with_slope=series is not tanh)
        slope = _summed(parts, slope_of(series)(parts[0], algebra.order), algebra)
        return _summed(parts, series(parts[0], algebra.order), algebra), slope

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        parts, ctx.series, ctx.algebra = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(parts, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if grads[0] is None:
            return None, None, None
        parts, out, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient may be differentiated again
            slope = composed(parts, slope_of(ctx.series), ctx.algebra)
            return _transposed(slope, grads[0], ctx.algebra), None, None
        from_out = not slope.numel()  # the slope of tanh follows from its value
        kernel = _kernel("tanh_backward" if from_out else "backward", out, ctx.algebra)
        if kernel is not None:
            source = out if from_out else slope
            return _native_backward(kernel, source, grads[0].contiguous(), ctx.algebra), None, None
        return _transposed(slope, grads[0], ctx.algebra), None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        del info
        parts, series, algebra = args
        return _Composition.apply(parts.movedim(in_dims[0], 1), series, algebra), (1, 1)


def _transposed(slope: Tensor, grad: Tensor, algebra: Algebra) -> Tensor:
    rows = list((grad * slope[0]).unbind())
    for i, j, k in algebra.proper_terms:
        rows[j] = rows[j].addcmul(slope[i], grad[k])
    return torch.stack(rows)


def _kernel(name: str, parts: Tensor, algebra: Algebra) -> Any:
    """The compiled function, or None where the sums above are taken."""
    small = parts.numel() < _WORTH_IT or len(parts) > _MOST or algebra.order + 2 > _MOST
    if small or parts.device.type != "cpu" or parts.dtype not in (torch.float32, torch.float64):
        return None
    library = native_library(_SOURCE)
    return library and getattr(library, f"{str(parts.dtype).removeprefix('torch.')}_{name}")


def _native_forward(
    kernel: Any, parts: Tensor, series: Series, algebra: Algebra, with_slope: bool
) -> tuple[Tensor, Tensor]:
    out, slope = torch.empty_like(parts), parts.new_empty(parts.shape if with_slope else 0)
    given = [torch.tanh(parts[0])] if series is tanh else series(parts[0], algebra.order + with_slope)
    given = [c.contiguous() for c in given]
    pointers = (ctypes.c_void_p * _MOST)(*(c.data_ptr() for c in given))  # the rest are null
    steps = _power_steps(algebra)
    kernel(_shape(parts, algebra, len(steps) // 4), _address(parts), pointers, steps, _address(out), _address(slope))
    return out, slope


def _native_backward(kernel: Any, slope: Tensor, grad: Tensor, algebra: Algebra) -> Tensor:
    out, steps = torch.empty_like(grad), _product_steps(algebra)
    shape = _shape(slope, algebra, len(steps) // 3)
    kernel(shape, _address(slope), _address(grad), steps, _address(out))
    return out


@lru_cache(maxsize=256)
def _power_steps(algebra: Algebra) -> ctypes.Array[ctypes.c_long]:
    degrees = [sum(index) for index in algebra.indices]
    powers = range(2, algebra.order + 1)
    return _longs([n for p in powers for i, j, k in algebra.proper_terms if degrees[j] >= p - 1 for n in (p, i, j, k)])


@lru_cache(maxsize=256)
def _product_steps(algebra: Algebra) -> ctypes.Array[ctypes.c_long]:
    return _longs([n for term in algebra.proper_terms for n in term])


def _longs(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_long]:
    return (ctypes.c_long * len(numbers))(*numbers)


def _shape(parts: Tensor, algebra: Algebra, steps: int) -> ctypes.Array[ctypes.c_long]:
    return _longs([parts[0].numel(), len(parts), algebra.order, steps, torch.get_num_threads()])


def _address(t: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(t.data_ptr() if t.numel() else None)
