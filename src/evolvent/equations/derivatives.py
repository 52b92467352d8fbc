"""Directional, mixed and coordinate derivatives of functions and networks in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError, ShapeError
from evolvent.equations.algebra import Algebra, Index, algebra
from evolvent.equations.expansion import check_inputs, differentiable_pass
from evolvent.equations.fallback import (
    NOT_SUPPORTED,
    buffers_settled,
    nested_derivatives,
    warn_of_fallback,
)
from evolvent.equations.jets import Jet

Directions = Sequence[Sequence[Tensor]]  # for each variable, a tensor for each input


def jet(f: Callable[..., Tensor], x: Tensor, direction: Tensor, order: int) -> list[Tensor]:
    r"""Derivatives of :math:`s \mapsto f(x + s d)` at s = 0, from the value to the given order, in one pass.

    Args:
        f: a module or function of one tensor, made of supported operations; others are computed by nested autograd,
            with a :class:`JetFallbackWarning`.
        x: the point, or a batch of points or images.
        direction: :math:`d`, of the shape of ``x`` or one that broadcasts to it.
        order: the highest derivative.

    Shape:
        Each of the ``order + 1`` tensors has the shape of ``f(x)``.

    >>> import torch
    >>> from evolvent.equations import jet
    >>> u, u_x, u_xx, u_xxx = jet(torch.sin, torch.zeros(1), torch.ones(1), order=3)
    >>> u_x.item(), u_xxx.item()
    (1.0, -1.0)
    """
    check_whole(0, order=order)
    found = taylor(f, [x], [[direction]], algebra((order,)))
    return [found[k,] for k in range(order + 1)]


def mixed_jet(
    f: Callable[..., Tensor], x: Tensor, directions: Sequence[Tensor], order: int | Iterable[Index]
) -> dict[Index, Tensor]:
    r"""Mixed derivatives of :math:`(s_1, \dots, s_m) \mapsto f(x + \sum_i s_i d_i)` at 0, in one pass.

    Args:
        f: a module or function of one tensor.
        x: the point, or a batch.
        directions: :math:`d_1, \dots, d_m`, each as for :func:`jet`.
        order: the highest total order, or the multi-indices that are asked for: (1, 2) is
            :math:`\partial_1 \partial_2^2`. Fewer indices cost less.

    Returns:
        Multi-index -> derivative; with an index, all smaller ones.

    >>> import torch
    >>> from evolvent.equations import mixed_jet
    >>> x = torch.tensor([[2.0, 3.0]])
    >>> e1, e2 = torch.eye(2)
    >>> found = mixed_jet(lambda x: x[:, 0] ** 2 * x[:, 1], x, [e1, e2], order=[(2, 1)])
    >>> {index: u.item() for index, u in found.items()}
    {(0, 0): 12.0, (0, 1): 4.0, (1, 0): 12.0, (1, 1): 4.0, (2, 0): 6.0, (2, 1): 2.0}
    """
    count = len(directions)
    if not count:
        raise ConfigError("mixed_jet got no directions. Give at least one tensor like x.")
    asked = _asked_indices(count, order)
    return taylor(f, [x], [[d] for d in directions], algebra(*asked))


def _asked_indices(count: int, order: Any) -> list[Index]:
    if not hasattr(order, "__iter__") or getattr(order, "ndim", 1) == 0:
        return _all_indices(count, order)
    order = list(order)
    for index in order:
        if not isinstance(index, Sequence) or len(index) != count:
            raise ConfigError(f"order needs indices such as {(1,) * count}, an entry for each direction, got {index}.")
        for n in index:
            check_whole(0, order=n)
    if not order:
        raise ConfigError("order got no indices. Give at least one, or a whole number for all up to it.")
    return [tuple(index) for index in order]


def _all_indices(count: int, order: int) -> list[Index]:
    check_whole(0, order=order)
    if count == 1:
        return [(order,)]
    return [(n, *rest) for n in range(order + 1) for rest in _all_indices(count - 1, order - n)]


def coordinate_jets(
    f: Callable[..., Tensor], coordinates: Sequence[Tensor], orders: Sequence[int]
) -> tuple[Tensor, list[list[Tensor]]]:
    r"""The value and the derivatives in each coordinate of :math:`u = f(c_1, c_2, \dots)`, all in one pass.

    A coordinate is moved everywhere at once, :math:`c_i + s`: for a network that treats its points one by one these are
    the partial derivatives, for images of coordinates the shift derivative.

    Args:
        f: a function of several tensors.
        coordinates: its arguments.
        orders: the highest derivative in each of them; no mixed ones are computed.

    Returns:
        The value, and for each coordinate its derivatives from the first.

    >>> import torch
    >>> from evolvent.equations import coordinate_jets
    >>> x, t = torch.tensor([2.0]), torch.tensor([3.0])
    >>> u, [[u_x, u_xx], [u_t]] = coordinate_jets(lambda x, t: x**3 * t, [x, t], [2, 1])
    >>> u.item(), u_x.item(), u_xx.item(), u_t.item()
    (24.0, 36.0, 36.0, 8.0)
    """
    for order in orders:
        check_whole(0, order=order)
    if len(orders) != len(coordinates):
        raise ConfigError(f"{len(coordinates)} coordinates need as many orders, got {len(orders)}.")
    axes = [tuple(order if i == j else 0 for j in range(len(orders))) for i, order in enumerate(orders)]
    directions = [
        [torch.full_like(c, float(i == j)) for j, c in enumerate(coordinates)] for i in range(len(coordinates))
    ]
    found = taylor(f, coordinates, directions, algebra(*axes))
    along = [
        [found[tuple(n if i == j else 0 for j in range(len(orders)))] for n in range(1, order + 1)]
        for i, order in enumerate(orders)
    ]
    return found[tuple(0 for _ in orders)], along


def taylor(
    f: Callable[..., Tensor], inputs: Sequence[Tensor], directions: Directions, kept: Algebra
) -> dict[Index, Tensor]:
    """All derivatives of an algebra, by one pass of jets, or by nested autograd if ``f`` cannot be done so."""
    check_inputs(f, inputs)
    moves = [[_like(d, x) for d, x in zip(row, inputs, strict=True)] for row in directions]
    try:
        seeds = [_seed(x, [row[n] for row in moves], kept) for n, x in enumerate(inputs)]
        with buffers_settled(f), differentiable_pass():
            result: Any = f(*seeds)
        return _derivatives(result, kept)
    except NOT_SUPPORTED as error:
        warn_of_fallback(error)
    return nested_derivatives(f, inputs, moves, kept.indices)


def _like(direction: Tensor, x: Tensor) -> Tensor:
    if not isinstance(direction, Tensor):
        raise ShapeError(f"a direction must be a tensor like x, got {type(direction).__name__}. Use torch.tensor.")
    try:
        return direction.to(x).expand(x.shape)
    except RuntimeError:
        raise ShapeError(
            f"a direction must have the shape of x, {tuple(x.shape)}, or broadcast to it, got {tuple(direction.shape)}."
        ) from None


def _seed(x: Tensor, moves: Sequence[Tensor], kept: Algebra) -> Jet:
    zero = torch.zeros_like(x)
    rows = [x, *(moves[index.index(1)] if sum(index) == 1 else zero for index in kept.indices[1:])]
    return Jet(torch.stack(rows), kept)


def _derivatives(result: Any, kept: Algebra) -> dict[Index, Tensor]:
    if not isinstance(result, Tensor):
        raise ConfigError(f"f must return one tensor, got {type(result).__name__}. Wrap it so that it returns one.")
    if isinstance(result, Jet):
        parts = zip(kept.indices, kept.factorials, result.parts.unbind(), strict=True)
        return {index: part * scale if scale > 1 else part for index, scale, part in parts}
    result = result if torch.is_grad_enabled() else result.detach()  # a constant
    return {index: torch.zeros_like(result) if sum(index) else result for index in kept.indices}
