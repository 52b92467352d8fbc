"""The forward Laplacian: value, gradient and Laplacian of a network in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent._core.errors import ConfigError, ShapeError
from evolvent.equations.expansion import Expansion, Series, differentiable_pass, is_expansion
from evolvent.equations.fallback import NOT_SUPPORTED, buffers_kept_on_failure, nested_derivatives, warn_of_fallback


class Laplacian(NamedTuple):
    """What :func:`laplacian` finds."""

    value: Tensor  # (N, *out)
    gradient: Tensor  # (N, *out, d)
    laplacian: Tensor  # (N, *out)


class SecondOrder(Expansion):
    r"""A tensor u with its gradient and Laplacian in d variables.

    .. math:: \Delta(uv) = u \Delta v + v \Delta u + 2 \nabla u \cdot \nabla v, \qquad
        \Delta \varphi(u) = \varphi'(u) \Delta u + \varphi''(u) |\nabla u|^2

    Args:
        value: (N, \*shape).
        gradient: (d, N, \*shape), or (d, 1, \*shape) while it is the same at all points.
        laplacian: (N, \*shape), or (1, \*shape).
    """

    def __init__(self, value: Tensor, gradient: Tensor, laplacian: Tensor) -> None:
        self.value, self.gradient, self.laplacian = value, gradient, laplacian

    def _dense(self) -> SecondOrder:
        shape = self.value.shape
        if self.gradient.shape[1:] == shape and self.laplacian.shape == shape:
            return self
        return SecondOrder(self.value, self.gradient.expand(-1, *shape), self.laplacian.expand(shape))

    def linear(self, function: Callable[[Tensor], Tensor]) -> SecondOrder:
        u = self._dense()
        return SecondOrder(function(u.value), torch.vmap(function)(u.gradient), function(u.laplacian))

    def samplewise(self, function: Callable[[Tensor], Tensor]) -> SecondOrder:
        return self.linear(function)

    def affine(self, weight: Tensor, bias: Tensor | None) -> SecondOrder:
        value = F.linear(self.value, weight, bias)
        return SecondOrder(value, F.linear(self.gradient, weight), F.linear(self.laplacian, weight))

    def plus(self, other: Expansion) -> SecondOrder:
        a, b = self._aligned(other)
        return SecondOrder(a.value + b.value, a.gradient + b.gradient, a.laplacian + b.laplacian)

    def _aligned(self, other: Expansion) -> tuple[SecondOrder, SecondOrder]:
        assert isinstance(other, SecondOrder)
        ndim = max(self.value.ndim, other.value.ndim)
        return self._padded(ndim), other._padded(ndim)

    def _padded(self, ndim: int) -> SecondOrder:
        """Axes of size 1 in front, so that shapes of different lengths are matched from the right."""
        missing = ndim - self.value.ndim
        if missing <= 0:
            return self
        u, ones = self._dense(), (1,) * missing
        gradient = u.gradient.reshape(len(u.gradient), *ones, *u.value.shape)
        return SecondOrder(u.value[(None,) * missing], gradient, u.laplacian[(None,) * missing])

    def shifted(self, constant: Tensor | float) -> SecondOrder:
        value = self.value + constant
        u = self._padded(value.ndim)
        same = value.shape == u.value.shape
        return SecondOrder(
            value, u.gradient if same else u.gradient.expand(-1, *value.shape), u.laplacian if same else u.laplacian.expand_as(value)
        )  # fmt: skip

    def scaled(self, constant: Tensor | float) -> SecondOrder:
        u = self._padded(constant.ndim if isinstance(constant, Tensor) else 0)
        return SecondOrder(u.value * constant, u.gradient * constant, u.laplacian * constant)

    def bilinear(self, operation: Callable[[Tensor, Tensor], Tensor], other: Expansion) -> SecondOrder:
        assert isinstance(other, SecondOrder)
        a, b = self._dense(), other._dense()
        left, right, both = (torch.vmap(operation, dims) for dims in ((0, None), (None, 0), (0, 0)))
        gradient = left(a.gradient, b.value) + right(a.value, b.gradient)
        crossed = 2 * both(a.gradient, b.gradient).sum(0)
        laplacian = operation(a.laplacian, b.value) + operation(a.value, b.laplacian) + crossed
        return SecondOrder(operation(a.value, b.value), gradient, laplacian)

    def compose(self, series: Series, fused: bool = True) -> SecondOrder:
        del fused
        value, slope, half_bend = series(self.value, 2)
        squares = (self.gradient * self.gradient).sum(0)
        laplacian = slope * self.laplacian + 2 * half_bend * squares
        return SecondOrder(value, slope * self.gradient, laplacian)

    def constant(self, value: Tensor) -> SecondOrder:
        zero = torch.zeros_like(value)
        return SecondOrder(value, zero.expand(len(self.gradient), *value.shape), zero)

    def joined(self, function: Callable[[list[Tensor]], Tensor], all_parts: list[Expansion]) -> SecondOrder:
        dense = [one._dense() for one in all_parts if isinstance(one, SecondOrder)]
        gradient = torch.vmap(lambda *parts: function(list(parts)))(*(one.gradient for one in dense))
        return SecondOrder(
            function([one.value for one in dense]), gradient, function([one.laplacian for one in dense])
        )


def laplacian(f: Callable[..., Tensor], x: Tensor) -> Laplacian:
    r"""Value, gradient and Laplacian :math:`\Delta f = \sum_i \partial_i^2 f` at points, in one pass.

    The cost is about that of the gradient of every hidden unit: no second derivative is computed beside their sum.

    Args:
        f: a module or function of points (N, d) with a result (N, \*out), which treats points one by one.
        x: the points, (N, d).

    Returns:
        ``value`` (N, \*out), ``gradient`` (N, \*out, d), ``laplacian`` (N, \*out).

    >>> import torch
    >>> from evolvent.equations import laplacian
    >>> found = laplacian(lambda x: (x**3).sum(1), torch.tensor([[1.0, 2.0]]))
    >>> found.value.item(), found.gradient.tolist(), found.laplacian.item()
    (9.0, [[3.0, 12.0]], 18.0)
    """
    if x.ndim != 2:
        raise ShapeError(f"laplacian takes points as (points, coordinates), got shape {tuple(x.shape)}.")
    axes = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)[:, None]  # (d, 1, d)
    try:
        with buffers_kept_on_failure(f), differentiable_pass():
            result: Any = f(SecondOrder(x, axes, x.new_zeros(1, x.shape[1])))
            return _found(result, x)
    except NOT_SUPPORTED as error:
        warn_of_fallback(error)
    return _nested(f, x, axes)


def _found(result: Any, x: Tensor) -> Laplacian:
    if not isinstance(result, Tensor):
        raise ConfigError(f"f must return one tensor, got {type(result).__name__}. Wrap it so that it returns one.")
    if not is_expansion(result):  # it does not depend on x
        return Laplacian(result, result.new_zeros(*result.shape, x.shape[1]), torch.zeros_like(result))
    u = result._dense()
    return Laplacian(u.value, u.gradient.movedim(0, -1), u.laplacian)


def _nested(f: Callable[..., Tensor], x: Tensor, axes: Tensor) -> Laplacian:
    rows = [nested_derivatives(f, [x], [[axis]], [(0,), (1,), (2,)]) for axis in axes]
    gradient = torch.stack([row[1,] for row in rows], -1)
    return Laplacian(rows[0][0,], gradient, torch.stack([row[2,] for row in rows]).sum(0))
