r"""Taylor coefficients :math:`\varphi_k = \varphi^{(k)}(u) / k!`, k = 0, ..., n, of elementwise functions at a tensor.

Most follow from a differential equation of the function: for :math:`y = \tanh`, :math:`y' = 1 - y^2` gives
:math:`(k + 1) y_{k+1} = -\sum_i y_i y_{k-i}` for :math:`k > 0`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent.equations.expansion import Series


def _square(y: list[Tensor], k: int) -> Tensor:
    """Coefficient k of the square of a series."""
    total = 2 * y[0] * y[k] if k else y[0] * y[0]
    for i in range(1, (k + 1) // 2):
        total = total + 2 * y[i] * y[k - i]
    return total if k % 2 or not k else total + y[k // 2] * y[k // 2]


def product(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
    return [sum((a[i] * b[k - i] for i in range(1, k + 1)), a[0] * b[k]) for k in range(len(a))]


def identity(u: Tensor, order: int) -> list[Tensor]:
    one, zero = torch.ones_like(u), torch.zeros_like(u)
    return [u, one, *[zero] * order][: order + 1]


def integral(value: Tensor, slope: list[Tensor]) -> list[Tensor]:
    """The series with this value and this derivative."""
    return [value, *(s / (k + 1) for k, s in enumerate(slope))]


def tanh(u: Tensor, order: int) -> list[Tensor]:
    y = [torch.tanh(u)]
    for k in range(order):
        y.append(1 - y[0] * y[0] if k == 0 else -y[0] * y[1] if k == 1 else _square(y, k) / -(k + 1))
    return y


def sigmoid(u: Tensor, order: int) -> list[Tensor]:
    y = [torch.sigmoid(u)]
    for k in range(order):
        y.append((y[k] - _square(y, k)) / (k + 1))
    return y


def exp(u: Tensor, order: int) -> list[Tensor]:
    y = torch.exp(u)
    return [y / math.factorial(k) if k > 1 else y for k in range(order + 1)]


def expm1(u: Tensor, order: int) -> list[Tensor]:
    return [torch.expm1(u), *exp(u, order)[1:]]


def log(u: Tensor, order: int) -> list[Tensor]:
    inverse = 1 / u
    return [torch.log(u), *(inverse**k * ((-1) ** (k + 1) / k) for k in range(1, order + 1))]


def log1p(u: Tensor, order: int) -> list[Tensor]:
    return [torch.log1p(u), *log(1 + u, order)[1:]]


def _alternating(value: Tensor, slope: Tensor, order: int, sign: int) -> list[Tensor]:
    """Functions with :math:`y'' = \\pm y`."""
    return [(value, slope)[k % 2] * (sign ** (k // 2) / math.factorial(k)) for k in range(order + 1)]


def sin(u: Tensor, order: int) -> list[Tensor]:
    return _alternating(torch.sin(u), torch.cos(u), order, -1)


def cos(u: Tensor, order: int) -> list[Tensor]:
    return _alternating(torch.cos(u), -torch.sin(u), order, -1)


def sinh(u: Tensor, order: int) -> list[Tensor]:
    return _alternating(torch.sinh(u), torch.cosh(u), order, 1)


def cosh(u: Tensor, order: int) -> list[Tensor]:
    return _alternating(torch.cosh(u), torch.sinh(u), order, 1)


def power(exponent: float) -> Series:
    """Whole powers that are not negative are polynomials, exact at 0 too."""

    def series(u: Tensor, order: int) -> list[Tensor]:
        found, binomial = [], 1.0
        for k in range(order + 1):
            found.append(torch.zeros_like(u) if binomial == 0 else u ** (exponent - k) * binomial)
            binomial *= (exponent - k) / (k + 1)
        return found

    return series


def powers(exponents: Tensor) -> Series:
    """The same for exponents that differ from entry to entry."""

    def series(u: Tensor, order: int) -> list[Tensor]:
        found, binomial = [], torch.ones_like(exponents)
        for k in range(order + 1):
            found.append(u ** torch.where(_vanishes(binomial, u, exponents - k), 0, exponents - k) * binomial)
            binomial = binomial * (exponents - k) / (k + 1)
        return found

    return series


def _vanishes(binomial: Tensor, u: Tensor, exponents: Tensor) -> Tensor:
    """Where a coefficient is 0 whatever u is; for exponents that are learned its slope in them is not."""
    zero = binomial == 0
    return zero & (u.detach() ** exponents.detach()).isinf() if exponents.requires_grad else zero


def atan(u: Tensor, order: int) -> list[Tensor]:
    y = [1 / (1 + u * u)]  # y' = -2 u y^2 comes from (1 + u^2) y = 1
    for k in range(1, order):
        y.append(-y[0] * (2 * u * y[k - 1] + (y[k - 2] if k > 1 else 0)))
    return integral(torch.atan(u), y[:order])


def erf(u: Tensor, order: int) -> list[Tensor]:
    y = [torch.exp(-u * u) * (2 / math.sqrt(math.pi))]
    for k in range(order - 1):
        y.append((u * y[k] + (y[k - 1] if k else 0)) * (-2 / (k + 1)))
    return integral(torch.erf(u), y[:order])


def softplus(u: Tensor, order: int, beta: float = 1.0, threshold: float = 20.0) -> list[Tensor]:
    slope = [s * beta**k for k, s in enumerate(sigmoid(beta * u, order))]
    straight = beta * u > threshold  # where torch takes the identity
    slope = [torch.where(straight, float(k == 0), s) for k, s in enumerate(slope)]
    return integral(F.softplus(u, beta, threshold), slope[:order])


def log_sigmoid(u: Tensor, order: int) -> list[Tensor]:
    slope = [s * (-1) ** k for k, s in enumerate(sigmoid(-u, order))]
    return integral(F.logsigmoid(u), slope[:order])


def gelu(u: Tensor, order: int) -> list[Tensor]:
    share = [0.5 * e * math.sqrt(0.5) ** k for k, e in enumerate(erf(u * math.sqrt(0.5), order))]
    share[0] = share[0] + 0.5
    return product(share, identity(u, order))


def silu(u: Tensor, order: int) -> list[Tensor]:
    return product(sigmoid(u, order), identity(u, order))


def piecewise(value: Callable[..., Tensor], *slopes: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    """A function given by its derivatives, of which those after the last vanish."""

    def series(u: Tensor, order: int, *args: float, **kwargs: float) -> list[Tensor]:
        found = [value(u, *args, **kwargs)]
        for k in range(1, order + 1):
            slope = slopes[k - 1](u, *args, **kwargs) if k <= len(slopes) else torch.zeros_like(u)
            found.append(slope / math.factorial(k))
        return found

    return series


def _inside(u: Tensor, low: float | None = None, high: float | None = None, closed: bool = True) -> Tensor:
    """1 between the limits and 0 outside."""
    mask = torch.ones_like(u, dtype=torch.bool)
    if low is not None:
        mask = mask & (u >= low if closed else u > low)
    if high is not None:
        mask = mask & (u <= high if closed else u < high)
    return mask.to(u.dtype)


relu = piecewise(torch.relu, lambda u: (u > 0).to(u.dtype))
relu6 = piecewise(F.relu6, lambda u: _inside(u, 0, 6, closed=False))
absolute = piecewise(torch.abs, torch.sign)
leaky_relu = piecewise(
    lambda u, negative_slope=0.01: F.leaky_relu(u, negative_slope),
    lambda u, negative_slope=0.01: torch.where(u > 0, 1.0, negative_slope).to(u.dtype),
)
hardtanh = piecewise(
    lambda u, min_val=-1.0, max_val=1.0: F.hardtanh(u, min_val, max_val),
    lambda u, min_val=-1.0, max_val=1.0: _inside(u, min_val, max_val, closed=False),
)
clamp = piecewise(
    lambda u, min=None, max=None: torch.clamp(u, min, max), lambda u, min=None, max=None: _inside(u, min, max)
)
hardsigmoid = piecewise(F.hardsigmoid, lambda u: _inside(u, -3, 3, closed=False) / 6)
hardswish = piecewise(
    F.hardswish,
    lambda u: torch.where(u < -3, 0.0, torch.where(u <= 3, u / 3 + 0.5, 1.0)).to(u.dtype),
    lambda u: _inside(u, -3, 3, closed=False) / 3,
)


def elu(u: Tensor, order: int, alpha: float = 1.0) -> list[Tensor]:
    below = [alpha * e for e in expm1(u.clamp(max=0), order)]
    return [torch.where(u > 0, above, e) for above, e in zip(identity(u, order), below, strict=True)]


def celu(u: Tensor, order: int, alpha: float = 1.0) -> list[Tensor]:
    return [e * alpha ** (1 - k) for k, e in enumerate(elu(u / alpha, order))]


def selu(u: Tensor, order: int) -> list[Tensor]:
    scale, alpha = 1.0507009873554805, 1.6732632423543772  # those of torch.nn.SELU
    return [scale * e for e in elu(u, order, alpha)]
