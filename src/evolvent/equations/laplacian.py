"""The forward Laplacian: value, gradient and Laplacian of a network in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor
from torch.autograd import Function
from torch.nn import functional as F

from evolvent._core.errors import ConfigError, ShapeError
from evolvent.equations.expansion import Expansion, Series, check_inputs, differentiable_pass
from evolvent.equations.fallback import NOT_SUPPORTED, buffers_settled, nested_derivatives, warn_of_fallback


class Laplacian(NamedTuple):
    """What :func:`laplacian` finds."""

    value: Tensor  # (N, *out)
    gradient: Tensor  # (N, *out, d)
    laplacian: Tensor  # (N, *out)


_FEWER = 0.8  # share of the directions below which it is worth while to turn the axes into those that are seen
_INDEPENDENT = 1e-3  # smallest over largest part of a column that is new, from which columns are independent


class SecondOrder(Expansion):
    r"""A tensor u with its gradient and Laplacian in d variables.

    .. math:: \Delta(uv) = u \Delta v + v \Delta u + 2 \nabla u \cdot \nabla v, \qquad
        \Delta \varphi(u) = \varphi'(u) \Delta u + \varphi''(u) |\nabla u|^2

    A first layer :math:`W x + b` of fewer units than variables sees few directions only. Since only inner products of
    gradients are needed, all gradients after it are kept in an orthonormal basis of these,
    :math:`W^\top = Q R`, :math:`\nabla u = Q \tilde\nabla u`.

    Args:
        value: (N, \*shape).
        gradient: (d, N, \*shape), or (d, 1, \*shape) while it is the same at all points.
        laplacian: (N, \*shape), or (1, \*shape).
        axes: basis Q in which the gradient is given, (variables, d); None for the variables themselves.
    """

    def __init__(self, value: Tensor, gradient: Tensor, laplacian: Tensor, axes: Tensor | None = None) -> None:
        self._value, self.gradient, self.laplacian, self.axes = value, gradient, laplacian, axes

    @property
    def value(self) -> Tensor:
        return self._value

    def _with(self, value: Tensor, gradient: Tensor, laplacian: Tensor) -> SecondOrder:
        """Another tensor whose gradient is given in the same basis."""
        return SecondOrder(value, gradient, laplacian, self.axes)

    def _dense(self) -> SecondOrder:
        shape = self.value.shape
        if self.gradient.shape[1:] == shape and self.laplacian.shape == shape:
            return self
        return self._with(self.value, self.gradient.expand(-1, *shape), self.laplacian.expand(shape))

    def _in_variables(self) -> SecondOrder:
        """The same with the gradient in the variables themselves."""
        if self.axes is None:
            return self
        gradient = torch.tensordot(self.axes, self.gradient, dims=1)
        return SecondOrder(self.value, gradient, self.laplacian)

    def _in_seen_directions(self) -> SecondOrder:
        """The same with the gradient in the directions that occur, if they are few and the same at all points."""
        directions, units = len(self.gradient), self.gradient[0].numel()
        if self.axes is not None or self.gradient.shape[1] != 1 or units > _FEWER * directions:
            return self
        axes, gradient = torch.linalg.qr(self.gradient.reshape(directions, units))
        if not _are_independent(gradient.detach()):  # nor does QR have a derivative there
            return self
        gradient = gradient.contiguous().view(units, *self.gradient.shape[1:])  # QR's has its columns first
        return SecondOrder(self.value, gradient, self.laplacian, axes)

    def linear(self, function: Callable[[Tensor], Tensor]) -> SecondOrder:
        u = self._dense()
        return self._with(function(u.value), torch.vmap(function)(u.gradient), function(u.laplacian))

    def samplewise(self, function: Callable[[Tensor], Tensor]) -> SecondOrder:
        return self.linear(function)

    def affine(self, weight: Tensor, bias: Tensor | None) -> SecondOrder:
        value = F.linear(self.value, weight, bias)
        found = self._with(value, F.linear(self.gradient, weight), F.linear(self.laplacian, weight))
        return found._in_seen_directions()

    def plus(self, other: Expansion) -> SecondOrder:
        a, b = _in_one_basis([self, other])
        ndim = max(a.value.ndim, b.value.ndim)
        a, b = a._padded(ndim), b._padded(ndim)
        return a._with(a.value + b.value, a.gradient + b.gradient, a.laplacian + b.laplacian)

    def _padded(self, ndim: int) -> SecondOrder:
        """Axes of size 1 in front, so that shapes of different lengths are matched from the right."""
        missing = ndim - self.value.ndim
        if missing <= 0:
            return self
        u, ones = self._dense(), (1,) * missing
        gradient = u.gradient.reshape(len(u.gradient), *ones, *u.value.shape)
        return u._with(u.value[(None,) * missing], gradient, u.laplacian[(None,) * missing])

    def shifted(self, constant: Tensor | float) -> SecondOrder:
        value = self.value + constant
        u = self._padded(value.ndim)
        if value.shape == u.value.shape:
            return u._with(value, u.gradient, u.laplacian)
        return u._with(value, u.gradient.expand(-1, *value.shape), u.laplacian.expand_as(value))

    def scaled(self, constant: Tensor | float) -> SecondOrder:
        u = self._padded(constant.ndim if isinstance(constant, Tensor) else 0)
        return u._with(u.value * constant, u.gradient * constant, u.laplacian * constant)

    def bilinear(self, operation: Callable[[Tensor, Tensor], Tensor], other: Expansion) -> SecondOrder:
        a, b = (one._dense() for one in _in_one_basis([self, other]))
        left, right, both = (torch.vmap(operation, dims) for dims in ((0, None), (None, 0), (0, 0)))
        gradient = left(a.gradient, b.value) + right(a.value, b.gradient)
        crossed = 2 * both(a.gradient, b.gradient).sum(0)
        laplacian = operation(a.laplacian, b.value) + operation(a.value, b.laplacian) + crossed
        return a._with(operation(a.value, b.value), gradient, laplacian)

    def compose(self, series: Series, fused: bool = True) -> SecondOrder:
        parts = self.value, self.gradient, self.laplacian
        recorded = torch.is_grad_enabled() and any(part.requires_grad for part in parts)
        found: Any = _Composition.apply(*parts, series) if recorded and fused else _composed(*parts, series)
        return self._with(*found)

    def constant(self, value: Tensor) -> SecondOrder:
        zero = torch.zeros_like(value)
        return self._with(value, zero.expand(len(self.gradient), *value.shape), zero)

    def joined(self, function: Callable[[Sequence[Any]], Tensor], all_parts: list[Expansion]) -> SecondOrder:
        dense = [one._dense() for one in _in_one_basis(all_parts)]
        gradient = torch.vmap(lambda *parts: function([*parts]))(*(one.gradient for one in dense))
        value, laplacian = function([one.value for one in dense]), function([one.laplacian for one in dense])
        return dense[0]._with(value, gradient, laplacian)


def _in_one_basis(parts: Sequence[Expansion]) -> list[SecondOrder]:
    """Gradients that can be added: in the basis of all of them if it is one, else in the variables."""
    known = [one for one in parts if isinstance(one, SecondOrder)]
    same = all(one.axes is known[0].axes for one in known)
    return known if same else [one._in_variables() for one in known]


def _are_independent(triangle: Tensor) -> bool:
    """Whether columns are, of whose QR decomposition this is the triangle."""
    if torch.compiler.is_compiling() or _is_batched(triangle):
        return False  # the answer depends on the numbers
    sizes = triangle.diagonal().abs()
    return bool(sizes.min() > _INDEPENDENT * sizes.max())


def _is_batched(u: Tensor) -> bool:
    """Whether the numbers differ between the calls of a ``torch.vmap``, also behind other transforms."""
    while is_functorch_wrapped_tensor(u) and not is_batchedtensor(u):
        u = get_unwrapped(u)
    return is_batchedtensor(u)


def _composed(value: Tensor, gradient: Tensor, laplacian: Tensor, series: Series) -> tuple[Tensor, Tensor, Tensor]:
    new, slope, half_bend = series(value, 2)
    squares = (gradient * gradient).sum(0)
    return new, slope * gradient, slope * laplacian + 2 * half_bend * squares


class _Composition(Function):
    """The same, with a gradient that keeps no copies of the large tensors. It can be differentiated again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, gradient: Tensor, laplacian: Tensor, series: Series) -> tuple[Tensor, Tensor, Tensor]:
        return _composed(value, gradient, laplacian, series)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.series = inputs[3]
        ctx.save_for_backward(*inputs[:3])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        value, gradient, laplacian = ctx.saved_tensors
        to_value, to_gradient, to_laplacian = grads
        _, slope, half_bend, third = ctx.series(value, 3)
        bend = 2 * half_bend
        squares = (gradient * gradient).sum(0)
        first = slope * to_value + bend * ((to_gradient * gradient).sum(0) + laplacian * to_laplacian)
        second = (slope * to_gradient).addcmul(2 * bend * to_laplacian, gradient)
        return (
            first + 6 * third * squares * to_laplacian,
            second.sum_to_size(gradient.shape),
            (slope * to_laplacian).sum_to_size(laplacian.shape),
            None,
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
    check_inputs(f, [x])
    axes = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)[:, None]  # (d, 1, d)
    try:
        with buffers_settled(f), differentiable_pass():
            result: Any = f(SecondOrder(x, axes, x.new_zeros(1, x.shape[1])))
        return _found(result, x)
    except NOT_SUPPORTED as error:
        warn_of_fallback(error)
    return _nested(f, x, axes)


def _found(result: Any, x: Tensor) -> Laplacian:
    if not isinstance(result, Tensor):
        raise ConfigError(f"f must return one tensor, got {type(result).__name__}. Wrap it so that it returns one.")
    if isinstance(result, SecondOrder):
        u = result._in_variables()._dense()
        return Laplacian(u.value, u.gradient.movedim(0, -1), u.laplacian)
    result = result if torch.is_grad_enabled() else result.detach()  # a constant
    return Laplacian(result, result.new_zeros(*result.shape, x.shape[1]), torch.zeros_like(result))


def _nested(f: Callable[..., Tensor], x: Tensor, axes: Tensor) -> Laplacian:
    rows = [nested_derivatives(f, [x], [[axis]], [(0,), (1,), (2,)]) for axis in axes]
    gradient = torch.stack([row[1,] for row in rows], -1)
    return Laplacian(rows[0][0,], gradient, torch.stack([row[2,] for row in rows]).sum(0))
