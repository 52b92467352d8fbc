"""The fractional Laplacian of functions on an interval that vanish outside of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError

_EDGE = 1e-9  # points are taken to be at least so far from the ends, where the integrand is not finite


def fractional_laplacian(f: Callable[[Tensor], Tensor], x: Tensor, order: float, nodes: int = 32) -> Tensor:
    r"""The fractional Laplacian on the line of a function that is 0 outside of [-1, 1],

    .. math:: (-\Delta)^{\alpha/2} u(x) = c_\alpha \int_0^\infty \frac{2 u(x) - u(x + r) - u(x - r)}{r^{1 + \alpha}} dr,
       \qquad c_\alpha = \frac{2^\alpha \Gamma((1 + \alpha)/2)}{\sqrt\pi\, |\Gamma(-\alpha/2)|}.

    The integral is divided where x + r and x - r leave the interval. Gauss-Jacobi quadrature takes the singularity at
    r = 0, Gauss-Legendre the middle, and the rest is known.

    Args:
        f: of points (N, 1), with values (N, 1); used inside of the interval only.
        x: points inside of (-1, 1), (N, 1).
        order: :math:`\alpha`, between 0 and 2.
        nodes: of each quadrature.

    >>> import torch
    >>> x = torch.tensor([[0.0], [0.5]], dtype=torch.float64)
    >>> found = fractional_laplacian(lambda x: (1 - x * x).clamp_min(0) ** 1.75, x, order=1.5)
    >>> [round(value, 3) for value in found[:, 0].tolist()]  # a multiple of 1 - 2.5 x^2
    [2.326, 0.872]
    """
    if not 0 < order < 2:
        raise ConfigError(f"a fractional Laplacian has an order between 0 and 2, got {order:g}. At 2 it is -u_xx.")
    check_whole(2, nodes=nodes)
    near, far = (1 - x.abs()).clamp_min(_EDGE), 1 + x.abs()
    shares, weights, middle, middle_weights = (part.to(x) for part in _quadratures(order, nodes))
    value = f(x)
    r = near * shares  # (N, nodes)
    bend = (2 * value - _at(f, x + r) - _at(f, x - r)) / r**2
    inner = near ** (2 - order) * (bend * weights).sum(1, keepdim=True)
    r = near + (far - near) * middle
    one_side = (2 * value - _at(f, x - x.sign() * r)) / r ** (1 + order)  # the other side lies outside
    between = (far - near) * (one_side * middle_weights).sum(1, keepdim=True)
    outer = 2 * value * far ** (-order) / order
    return _constant(order) * (inner + between + outer)


def _at(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return f(x.reshape(-1, 1)).view_as(x)


def _constant(order: float) -> float:
    return 2**order * math.gamma((1 + order) / 2) / (math.sqrt(math.pi) * abs(math.gamma(-order / 2)))


@lru_cache(maxsize=16)
def _quadratures(order: float, nodes: int) -> tuple[Tensor, ...]:
    """Nodes and weights on [0, 1]: for the weight r^(1 - order), and for none."""
    from scipy.special import roots_jacobi, roots_legendre

    found = []
    for (places, weights), power in ((roots_jacobi(nodes, 0, 1 - order), 1 - order), (roots_legendre(nodes), 0.0)):
        found += [torch.from_numpy((places + 1) / 2), torch.from_numpy(weights / 2 ** (power + 1))]
    return tuple(found)
