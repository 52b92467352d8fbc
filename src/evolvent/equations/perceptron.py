r"""Power series through layers of tanh, all coefficients and all layers at once, with the gradient written by hand.

For :math:`y = \tanh u` with slope :math:`s = 1 - y^2`, the equation :math:`y' = s u'` along a variable of the series
gives the coefficients

.. math:: \alpha_d\, y_\alpha = \sum_{\beta \le \alpha} \beta_d\, u_\beta\, s_{\alpha - \beta}, \qquad
   s_\alpha = -\sum_{\beta \le \alpha} y_\beta\, y_{\alpha - \beta},

in ascending order of :math:`\alpha`, and :math:`\delta y = s\,\delta u` as series gives the gradient.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from evolvent._core.native import native_library
from evolvent.equations.algebra import Algebra
from evolvent.equations.expansion import Expansion, is_transformed, register_rule
from evolvent.equations.jets import Jet
from evolvent.networks.perceptron import tanh_layers

_SOURCE = Path(__file__).with_suffix(".cpp")
_MOST = 16  # coefficients that the kernel has room for
_BLOCK = 32  # points that it takes at a time


class _Step(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("of_slope", "i", "j", "k", "added")] + [("weight", ctypes.c_double)]


class _Task(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_long) for name in ("points", "parts", "layers", "steps", "slopes", "products", "threads")),
        *((name, ctypes.c_void_p) for name in ("widths", "weights", "biases", "step", "slope", "product")),
    ]


def layers_of_series(u: Expansion, parameters: Sequence[Tensor]) -> Expansion:
    """The rule of :func:`~evolvent.networks.perceptron.tanh_layers`."""
    if isinstance(u, Jet) and _fits(u, parameters):
        return Jet(_Layers.apply(u.parts, u.algebra, *parameters), u.algebra)  # pyright: ignore[reportArgumentType]
    return _one_by_one(u, parameters)


register_rule(tanh_layers, layers_of_series)


def _one_by_one(u: Any, parameters: Sequence[Tensor]) -> Any:
    *hidden, last = zip(parameters[::2], parameters[1::2], strict=True)
    for weight, bias in hidden:
        u = torch.tanh(F.linear(u, weight, bias))
    return F.linear(u, *last)


def _fits(u: Jet, parameters: Sequence[Tensor]) -> bool:
    """Whether the compiled function can be used."""
    tensors = [u.parts, *parameters]
    plain = all(t.dtype == torch.float64 and t.device.type == "cpu" and not is_transformed(t) for t in tensors)
    return plain and u.parts.ndim == 3 and len(u.parts) <= _MOST and native_library(_SOURCE) is not None


class _Layers(Function):
    """The kernel with its gradient. A gradient that is differentiated again is computed layer by layer."""

    @staticmethod
    def forward(ctx: Any, parts: Tensor, algebra: Algebra, *parameters: Tensor) -> Tensor:
        parts, ctx.algebra = parts.contiguous(), algebra
        made = [p.contiguous() for p in parameters]
        units = sum(len(bias) for bias in made[1:-1:2])
        out = parts.new_empty(*parts.shape[:2], len(made[-1]))
        kept = parts.new_empty(-(-parts.shape[1] // _BLOCK) * _BLOCK * len(parts) * units)
        native_library(_SOURCE).perceptron_forward(*_call(parts, algebra, made, out, kept))  # pyright: ignore
        ctx.save_for_backward(parts, kept, *made)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        parts, kept, *parameters = ctx.saved_tensors
        if torch.is_grad_enabled():
            inputs = [t for t, needed in zip((parts, *parameters), _needed(ctx), strict=True) if needed]
            out = _one_by_one(Jet(parts, ctx.algebra), parameters).parts
            found = iter(torch.autograd.grad(out, inputs, grads[0], create_graph=True))
            made = [next(found) if needed else None for needed in _needed(ctx)]
            return made[0], None, *made[1:]
        gradient = parts.new_zeros(sum(p.numel() for p in parameters))
        to_parts = torch.empty_like(parts) if ctx.needs_input_grad[0] else None
        task, *addresses = _call(parts, ctx.algebra, parameters, grads[0].contiguous(), kept, gradient)
        size, last = ctypes.c_long(len(gradient)), ctypes.c_void_p(None if to_parts is None else to_parts.data_ptr())
        native_library(_SOURCE).perceptron_backward(task, *addresses, size, last)  # pyright: ignore
        pieces = gradient.split([p.numel() for p in parameters])
        return to_parts, None, *(piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True))


def _needed(ctx: Any) -> list[bool]:
    return [ctx.needs_input_grad[0], *ctx.needs_input_grad[2:]]


def _call(parts: Tensor, algebra: Algebra, parameters: Sequence[Tensor], *tensors: Tensor) -> list[Any]:
    """Arguments of the kernel; whatever they point to lives as long as the first of them."""
    steps, slopes, products = _programme(algebra)
    count = len(parameters) // 2
    widths = (ctypes.c_long * (count + 1))(parts.shape[2], *(len(bias) for bias in parameters[1::2]))
    weights, biases = ((ctypes.c_void_p * count)(*(p.data_ptr() for p in parameters[first::2])) for first in (0, 1))
    numbers = (parts.shape[1], len(parts), count, len(steps), len(slopes), len(products) // 3, torch.get_num_threads())
    pointers = (ctypes.cast(a, ctypes.c_void_p) for a in (widths, weights, biases, steps, slopes, products))
    task = _Task(*numbers, *pointers)
    vars(task)["held"] = (widths, weights, biases)
    return [ctypes.byref(task), *(ctypes.c_void_p(t.data_ptr()) for t in (parts, *tensors))]


@lru_cache(maxsize=256)
def _programme(algebra: Algebra) -> tuple[Any, Any, Any]:
    """What the kernel does with the rows of a unit: for tanh and its slope, for the slope alone, for the gradient."""
    series, slopes, needed = [], [], _slopes_needed(algebra)
    for k, index in enumerate(algebra.indices[1:], start=1):
        axis = next(d for d, n in enumerate(index) if n)
        pairs = [(i, j) for i, j, total in algebra.terms if total == k]
        ways = [(i, j, algebra.indices[i][axis] / index[axis]) for i, j in pairs if algebra.indices[i][axis]]
        series += [_Step(0, i, j, k, n > 0, weight) for n, (i, j, weight) in enumerate(ways)]
        halves = [(i, j, -1.0 if i == j else -2.0) for i, j in pairs if i <= j]
        square = [_Step(1, i, j, k, n > 0, weight) for n, (i, j, weight) in enumerate(halves)]
        series += square if k in needed else []
        slopes += square
    products = [n for term in algebra.proper_terms for n in term]
    return (
        (_Step * len(series))(*series),
        (_Step * len(slopes))(*slopes),
        (ctypes.c_long * len(products))(*products),
    )


def _slopes_needed(algebra: Algebra) -> set[int]:
    """Coefficients of the slope that coefficients of tanh are made of."""
    return {j for i, j, _ in algebra.terms if i}
