"""Whether an operator is linear and its adjoint is its adjoint."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from evolvent.operators import LinearOperator
from evolvent.testing._claims import claim, distance, finite_gradient, norm

_ROUNDING = 1e-10


def check_operator(
    operator: LinearOperator, input_shape: Sequence[int], output_shape: Sequence[int] | None = None
) -> None:
    r"""Measure, in float64, what :class:`~evolvent.operators.LinearOperator` claims.

    .. math:: L(a u + b v) = a L u + b L v, \qquad \langle L u, v\rangle = \langle u, L^\top v\rangle

    and that both sides of the second identity give every weight the same finite gradient.

    Args:
        operator: any operator; a copy is used, in evaluation mode.
        input_shape: whole shape of an input, with the batch if there is one.
        output_shape: shape that :math:`L u` shall have; taken as it comes if left out.

    >>> from evolvent.operators import Convolution
    >>> check_operator(Convolution(1, 2), (1, 1, 1, 1), (1, 2, 1, 1))
    """
    operator = copy.deepcopy(operator).double().eval()
    draw = torch.Generator().manual_seed(0)

    def random(shape: Sequence[int]) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=draw)

    u, other = random(input_shape), random(input_shape)
    image = operator(u)
    claim(
        output_shape is None or tuple(image.shape) == tuple(output_shape),
        f"L u has shape {tuple(image.shape)}, claimed {tuple(output_shape or ())}.",
    )
    v, other_v = random(image.shape), random(image.shape)
    back = operator.adjoint(v)
    claim(back.shape == u.shape, f"L^T v has shape {tuple(back.shape)}, an adjoint gives {tuple(u.shape)}.")
    _check_linear("L", operator, u, other)
    _check_linear("L^T", operator.adjoint, v, other_v)
    _check_adjoint(operator, u, v)


def _check_linear(name: str, act: Callable[[Tensor], Tensor], u: Tensor, v: Tensor) -> None:
    off = distance(act(2 * u - 3 * v), 2 * act(u) - 3 * act(v))
    claim(off <= _ROUNDING, f"{name}(2u - 3v) differs from 2 {name} u - 3 {name} v by {off:.1e}, claimed linear.")


def _check_adjoint(operator: LinearOperator, u: Tensor, v: Tensor) -> None:
    image, back = operator(u), operator.adjoint(v)
    left, right = (image * v).sum(), (u * back).sum()
    scale = max(1.0, norm(image) * norm(v))
    off = abs(left.item() - right.item()) / scale
    claim(
        off <= _ROUNDING,
        f"<Lu, v> = {left.item():.12g} and <u, L^T v> = {right.item():.12g} differ by {off:.1e} of |Lu| |v|, "
        f"an adjoint allows {_ROUNDING:g}.",
    )
    forward, adjoint = _gradients(operator, left), _gradients(operator, right)
    for name, found in forward.items():
        off = distance(found, adjoint[name]) / scale
        claim(off <= _ROUNDING, f"weight {name!r} has gradients of <Lu, v> and <u, L^T v> that differ by {off:.1e}.")


def _gradients(operator: LinearOperator, value: Tensor) -> dict[str, Tensor]:
    named = {name: p for name, p in operator.named_parameters() if p.requires_grad}
    if not named:
        return {}
    claim(value.requires_grad, f"no gradient flows to the weights {sorted(named)}.")
    found = torch.autograd.grad(value, list(named.values()), allow_unused=True)
    return {name: finite_gradient(g, f"the weight {name!r}") for name, g in zip(named, found, strict=True)}
