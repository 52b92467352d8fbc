"""Elementwise functions of power series, with the derivatives of the result written by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from evolvent.equations.algebra import Algebra
from evolvent.equations.expansion import Series


def composed(parts: Tensor, series: Series, algebra: Algebra, fused: bool = True) -> Tensor:
    r"""Coefficients of :math:`\varphi(u) = \sum_p \varphi_p(u_0) (u - u_0)^p`.

    Args:
        parts: coefficients of u, (len(algebra.indices), ...).
        series: gives the Taylor coefficients :math:`\varphi_0, \dots, \varphi_n` at a tensor.
        fused: write the gradient by hand, which needs one coefficient more.
    """
    if fused and parts.requires_grad and torch.is_grad_enabled():
        return _Composition.apply(parts, series, algebra)[0]  # pyright: ignore[reportOptionalSubscript]
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
    r"""The same, and :math:`P = \varphi'(u)`: since :math:`\delta \varphi(u) = P\,\delta u`, the gradient is a product with P
    transposed. It can be differentiated again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(parts: Tensor, series: Series, algebra: Algebra) -> tuple[Tensor, Tensor]:
        coefficients = series(parts[0], algebra.order + 1)
        slopes = [p * c if p > 1 else c for p, c in enumerate(coefficients) if p]
        out = parts * coefficients[1]
        out[0] = coefficients[0]
        slope = parts * slopes[1] if algebra.order else slopes[0][None].clone()
        slope[0] = slopes[0]
        for p, power in enumerate(algebra.powers(parts)[1:], start=2):
            for k, part in power.items():
                out[k].addcmul_(coefficients[p], part)
                slope[k].addcmul_(slopes[p], part)
        return out, slope

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        parts, ctx.series, ctx.algebra = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(parts, output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        parts, slope = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient may be differentiated again
            slope = composed(parts, slope_of(ctx.series), ctx.algebra)
            return _transposed(slope, grads[0], ctx.algebra), None, None
        grad = grads[0] * slope[0]
        for i, j, k in ctx.algebra.proper_terms:
            grad[j].addcmul_(slope[i], grads[0][k])
        return grad, None, None


def _transposed(slope: Tensor, grad: Tensor, algebra: Algebra) -> Tensor:
    rows = list((grad * slope[0]).unbind())
    for i, j, k in algebra.proper_terms:
        rows[j] = rows[j].addcmul(slope[i], grad[k])
    return torch.stack(rows)
