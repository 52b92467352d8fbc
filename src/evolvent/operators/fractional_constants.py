"""The constants before the integrals of the fractional Laplacian and its inverse."""

from __future__ import annotations

import math

from evolvent._core.errors import ConfigError

EULER_GAMMA = 0.57721566490153286


def fractional_constant(dim: int, s: float) -> float:
    r""":math:`c_{n,s} = \dfrac{4^s\, \Gamma(n/2 + s)}{\pi^{n/2}\, |\Gamma(-s)|}` of eq. 3.5, for :math:`0 < s < 1`.

    >>> round(fractional_constant(1, 0.5) * math.pi, 12)
    1.0
    """
    check_order(s, dim, below=1.0, name="(-Delta)^s")
    return 4**s * math.gamma(dim / 2 + s) / (math.pi ** (dim / 2) * abs(math.gamma(-s)))


def riesz_constant(dim: int, s: float) -> float:
    r""":math:`c_{n,-s} = \dfrac{\Gamma(n/2 - s)}{4^s\, \pi^{n/2}\, \Gamma(s)}` of eq. 3.8, for :math:`0 < s < n/2`.

    >>> round(riesz_constant(3, 1.0) * 4 * math.pi, 12)
    1.0
    """
    check_order(s, dim, below=dim / 2, name="(-Delta)^-s")
    return math.gamma(dim / 2 - s) / (4**s * math.pi ** (dim / 2) * math.gamma(s))


def logarithmic_constant(dim: int) -> float:
    r""":math:`c_n = \dfrac{1}{(4\pi)^{n/2}\, \Gamma(n/2)}` of eq. 3.9, the case :math:`s = n/2`.

    >>> round(logarithmic_constant(2) * 4 * math.pi, 12)
    1.0
    """
    check_order(0.5, dim, below=1.0, name="the logarithmic kernel")
    return 1 / ((4 * math.pi) ** (dim / 2) * math.gamma(dim / 2))


def check_order(s: float, dim: int, below: float, name: str) -> None:
    """Refuse an order outside :math:`0 < s < below`, and a space without dimension."""
    if dim < 1:
        raise ConfigError(f"{name} acts in a space of dimension 1 or more, got {dim}. Images have dimension 2.")
    if not 0 < s < below:
        raise ConfigError(f"{name} needs 0 < s < {below:g} in dimension {dim}, got s = {s}. Choose s inside.")
