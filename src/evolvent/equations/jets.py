"""Taylor mode: truncated power series of tensors that run through networks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import Function

from evolvent.equations.algebra import Algebra
from evolvent.equations.composition import composed
from evolvent.equations.expansion import Expansion, Series


class Jet(Expansion):
    r"""A tensor-valued power series :math:`u(\varepsilon) = \sum_\alpha u_\alpha \varepsilon^\alpha`, truncated.

    Args:
        parts: Taylor coefficients, (len(algebra.indices), \*shape); the first is the value.
        algebra: which coefficients there are.
    """

    def __init__(self, parts: Tensor, algebra: Algebra) -> None:
        self.parts, self.algebra = parts, algebra

    @property
    def value(self) -> Tensor:
        return self.parts[0]

    def _with(self, parts: Tensor) -> Jet:
        return Jet(parts, self.algebra)

    def linear(self, function: Callable[[Tensor], Tensor]) -> Jet:
        return self._with(torch.vmap(function, randomness="same")(self.parts))

    def samplewise(self, function: Callable[[Tensor], Tensor]) -> Jet:
        out = function(self.parts.flatten(0, 1))
        return self._with(out.unflatten(0, (len(self.parts), -1)))

    def affine(self, weight: Tensor, bias: Tensor | None) -> Jet:
        if self.parts.ndim == 2:  # one sample without a batch axis
            product = self.parts @ weight.T
            return self._with(product if bias is None else _shift(product, bias))
        rows = _Affine.apply(self.parts.flatten(1, -2), weight, bias)
        return self._with(rows.unflatten(1, self.parts.shape[1:-1]))  # pyright: ignore[reportOptionalMemberAccess]

    def plus(self, other: Expansion) -> Jet:
        assert isinstance(other, Jet)
        ndim = max(self.parts.ndim, other.parts.ndim)
        return self._with(_aligned(self.parts, ndim) + _aligned(other.parts, ndim))

    def shifted(self, constant: Tensor | float) -> Jet:
        return self._with(_shift(self.parts, constant))

    def scaled(self, constant: Tensor | float) -> Jet:
        ndim = constant.ndim + 1 if isinstance(constant, Tensor) else 0
        return self._with(_aligned(self.parts, max(ndim, self.parts.ndim)) * constant)

    def bilinear(self, operation: Callable[[Tensor, Tensor], Tensor], other: Expansion) -> Jet:
        assert isinstance(other, Jet)
        a, b = self.parts.unbind(), other.parts.unbind()
        rows: list[Tensor | None] = [None] * len(a)
        for i, j, k in self.algebra.terms:
            product, so_far = operation(a[i], b[j]), rows[k]
            rows[k] = product if so_far is None else so_far + product
        return self._with(torch.stack([row for row in rows if row is not None]))

    def compose(self, series: Series, fused: bool = True) -> Jet:
        return self._with(composed(self.parts, series, self.algebra, fused))

    def constant(self, value: Tensor) -> Jet:
        return self._with(torch.cat([value[None], value.new_zeros(len(self.parts) - 1, *value.shape)]))

    def joined(self, function: Callable[[list[Tensor]], Tensor], all_parts: list[Expansion]) -> Jet:
        tensors = [one.parts for one in all_parts if isinstance(one, Jet)]
        return self._with(torch.vmap(lambda *parts: function(list(parts)))(*tensors))


def _aligned(parts: Tensor, ndim: int) -> Tensor:
    """Axes of size 1 after the first, so that shapes of different lengths are matched from the right."""
    missing = ndim - parts.ndim
    return parts if missing <= 0 else parts.reshape(len(parts), *(1,) * missing, *parts.shape[1:])


def _shift(parts: Tensor, constant: Tensor | float) -> Tensor:
    value = (parts[0] + constant)[None]
    rest = _aligned(parts[1:], value.ndim)
    return torch.cat([value, rest.expand(-1, *value.shape[1:])])


class _Affine(Function):
    """All coefficients in one matrix product; the bias goes to the value alone. It can be differentiated again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(parts: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # (C, N, in)
        out = (parts.flatten(0, 1) @ weight.T).unflatten(0, parts.shape[:2])
        if bias is not None:
            out[0] += bias
        return out

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # noqa: ANN001
        parts, weight, bias = inputs
        ctx.with_bias = bias is not None
        ctx.save_for_backward(parts, weight)

    @staticmethod
    def backward(ctx, *grads):  # noqa: ANN001, ANN205
        parts, weight = ctx.saved_tensors
        rows = grads[0].flatten(0, 1)
        to_parts = (rows @ weight).view(parts.shape) if ctx.needs_input_grad[0] else None
        to_weight = rows.T @ parts.flatten(0, 1) if ctx.needs_input_grad[1] else None
        to_bias = grads[0][0].sum(0) if ctx.with_bias and ctx.needs_input_grad[2] else None
        return to_parts, to_weight, to_bias
