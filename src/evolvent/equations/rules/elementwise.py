"""Activations and other functions of one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent.equations.expansion import Expansion, Rule, operation_name, register_everywhere, register_rule
from evolvent.equations.rules import series
from evolvent.equations.rules.selection import maximum, minimum

SERIES: dict[str, Callable[..., list[Tensor]]] = {
    "tanh": series.tanh, "sigmoid": series.sigmoid, "softplus": series.softplus, "logsigmoid": series.log_sigmoid,
    "exp": series.exp, "expm1": series.expm1, "log": series.log, "log1p": series.log1p,
    "sin": series.sin, "cos": series.cos, "sinh": series.sinh, "cosh": series.cosh, "atan": series.atan,
    "arctan": series.atan, "erf": series.erf, "silu": series.silu, "elu": series.elu, "celu": series.celu,
    "selu": series.selu,
    "relu": series.relu, "relu6": series.relu6, "leaky_relu": series.leaky_relu, "abs": series.absolute,
    "hardtanh": series.hardtanh, "hardsigmoid": series.hardsigmoid,
    "hardswish": series.hardswish, "sqrt": series.power(0.5), "rsqrt": series.power(-0.5),
    "reciprocal": series.power(-1.0), "square": series.power(2.0),
}  # fmt: skip


def elementwise(taylor: Callable[..., list[Tensor]]) -> Rule:
    """The rule of a function with these Taylor coefficients; further arguments are numbers."""

    def rule(u: Expansion, *args: float, **kwargs: float) -> Expansion:
        if not args and not kwargs:
            return u.compose(taylor)
        learned = any(isinstance(one, Tensor) and one.requires_grad for one in (*args, *kwargs.values()))
        return u.compose(lambda value, order: taylor(value, order, *args, **kwargs), fused=not learned)

    return rule


for _name, _taylor in SERIES.items():
    register_everywhere(_name, elementwise(_taylor))


def clamp(u: Any, min: Any = None, max: Any = None) -> Expansion:
    if not isinstance(min, Tensor) and not isinstance(max, Tensor):
        return u.compose(lambda value, order: series.clamp(value, order, min, max))
    u = u if min is None else maximum(u, min)
    return u if max is None else minimum(u, max)


def gelu(u: Expansion, approximate: str = "none") -> Expansion:
    if approximate == "none":
        return u.compose(series.gelu)
    inner: Any = (u * (u * u * 0.044715 + 1)) * math.sqrt(2 / math.pi)  # type: ignore[operator]
    return u * (inner.compose(series.tanh) * 0.5 + 0.5)  # type: ignore[operator]


def mish(u: Expansion) -> Expansion:
    return u * u.compose(series.softplus).compose(series.tanh)  # type: ignore[operator]


register_everywhere("clamp", clamp)
register_everywhere("gelu", gelu)
register_everywhere("mish", mish)
register_rule(F.tanhshrink, lambda u: u - u.compose(series.tanh))
register_rule(F.softsign, lambda u: u / (abs_of(u) + 1))


def abs_of(u: Expansion) -> Any:
    return u.compose(series.absolute)


def _from_list(
    function: Callable[..., Any], derivatives: Sequence[Callable[[Tensor], Tensor]], u: Tensor, order: int
) -> list[Tensor]:
    if order > len(derivatives):
        raise ConfigError(
            f"{operation_name(function)} was registered with {len(derivatives)} derivatives, and order {order} was "
            f"asked for. Give register_elementwise {order} derivatives."
        )
    return [function(u), *(d(u) / math.factorial(k) for k, d in enumerate(derivatives[:order], start=1))]


def register_elementwise(function: Callable[..., Any], *derivatives: Callable[[Tensor], Tensor]) -> None:
    r"""Teach expansions a function of one number, :math:`\varphi`, by its derivatives.

    Args:
        function: a PyTorch function, applied to every element.
        derivatives: :math:`\varphi', \varphi'', \dots`, as many as the highest order that will be asked for. Autograd
            differentiates them in training.

    >>> import torch
    >>> from evolvent.equations import jet, register_elementwise
    >>> j0, j1 = torch.special.bessel_j0, torch.special.bessel_j1
    >>> register_elementwise(j0, lambda u: -j1(u))
    >>> [round(d.item(), 4) for d in jet(j0, torch.tensor([1.0]), torch.ones(1), order=1)]
    [0.7652, -0.4401]
    """
    taylor = partial(_from_list, function, derivatives)
    register_rule(function, lambda u: u.compose(taylor, fused=False))
