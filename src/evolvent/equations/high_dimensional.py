"""Three equations in a hundred dimensions, after Han, Jentzen, E 2018, with their values by other means."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from evolvent.equations.semilinear import SemilinearProblem, register_semilinear


@register_semilinear("hamilton-jacobi-bellman")
def hamilton_jacobi_bellman(dimension: int = 100, strength: float = 1.0) -> SemilinearProblem:
    r"""The cheapest control of a noisy motion: :math:`u_t + \Delta u - \lambda |\nabla u|^2 = 0`,
    :math:`u(1, x) = \ln \frac{1 + |x|^2}{2}`.

    Han, Jentzen, E 2018, eq. 13; 4.5901 at the origin for 100 dimensions. :math:`e^{-\lambda u}` obeys the heat
    equation, and :math:`|x|^2` is then chi-square distributed: the reference is one integral.
    """

    def reference() -> float:
        from scipy.integrate import quad
        from scipy.stats import chi2

        def mean(s: float) -> float:
            return ((1 + 2 * s) / 2) ** -strength * chi2.pdf(s, dimension)

        spread = 12 * math.sqrt(2 * dimension) + 40
        return -math.log(quad(mean, max(0.0, dimension - spread), dimension + spread, limit=200)[0]) / strength

    return SemilinearProblem(
        name="hamilton-jacobi-bellman",
        title="Hamilton-Jacobi-Bellman equation",
        dimension=dimension,
        until=1.0,
        volatility=math.sqrt(2),
        source=lambda t, x, u, z: -strength / 2 * z.square().sum(1, keepdim=True),  # z is sqrt 2 times the gradient
        terminal=lambda x: torch.log((1 + x.square().sum(1, keepdim=True)) / 2),
        reference=reference,
    )


@register_semilinear("allen-cahn-ball")
def allen_cahn_ball(dimension: int = 100, until: float = 0.3) -> SemilinearProblem:
    r"""Allen-Cahn equation in all of space, :math:`u_t + \Delta u + u - u^3 = 0`,
    :math:`u(T, x) = \frac{1}{2 + 0.4 |x|^2}`.

    Han, Jentzen, E 2018, eq. 16, read backward in time; 0.0528 at the origin for 100 dimensions and T = 0.3. The
    solution depends on :math:`s = |x|^2` alone, :math:`\Delta u = 4 s u_{ss} + 2 d u_s`: the reference is computed by
    finite differences in s.
    """
    return SemilinearProblem(
        name="allen-cahn-ball",
        title="Allen-Cahn equation in all of space",
        dimension=dimension,
        until=until,
        volatility=math.sqrt(2),
        source=lambda t, x, u, z: u - u**3,
        terminal=lambda x: 1 / (2 + 0.4 * x.square().sum(1, keepdim=True)),
        reference=lambda: _radial_allen_cahn(dimension, until),
    )


def _radial_allen_cahn(dimension: int, until: float, cells: int = 4000) -> float:
    """The value at the origin; what happens at the far end of the interval does not reach it in time."""
    from scipy.integrate import solve_ivp

    end = 8 * (2 * dimension * until + 10)
    s, width = np.linspace(0, end, cells + 1), end / cells

    def change(_: float, u: np.ndarray) -> np.ndarray:
        inner = np.empty_like(u)
        first = (u[2:] - u[:-2]) / (2 * width)
        inner[1:-1] = 4 * s[1:-1] * (u[2:] - 2 * u[1:-1] + u[:-2]) / width**2 + 2 * dimension * first
        inner[0] = 2 * dimension * (-3 * u[0] + 4 * u[1] - u[2]) / (2 * width)
        inner[-1] = 2 * dimension * (u[-1] - u[-2]) / width
        return inner + u - u**3

    found = solve_ivp(change, (0, until), 1 / (2 + 0.4 * s), "LSODA", rtol=1e-8, atol=1e-11, lband=2, uband=2)
    return float(found.y[0, -1])


@register_semilinear("black-scholes-default")
def black_scholes_default(dimension: int = 100) -> SemilinearProblem:
    r"""The price of a claim whose seller may default, :math:`u_t + \mu x \cdot \nabla u + \frac{\sigma^2}{2} \sum_i
    x_i^2 u_{x_i x_i} - (1 - \delta) Q(u) u - R u = 0`, :math:`u(1, x) = \min_i x_i`.

    Han, Jentzen, E 2018, eq. 11, with :math:`\delta = 2/3`, :math:`R = 0.02`, :math:`\mu = 0.02`,
    :math:`\sigma = 0.2`, and a rate of default :math:`Q` that falls from 0.2 at prices below 50 to 0.02 above 70. For
    100 dimensions they give 57.300 at (100, ..., 100), by the multilevel Picard method, which is the
    reference here; other dimensions have none.
    """

    def source(t: float, x: Tensor, u: Tensor, z: Tensor) -> Tensor:
        rate = (0.2 - (u - 50) * (0.2 - 0.02) / 20).clamp(0.02, 0.2)
        return -(1 - 2 / 3) * rate * u - 0.02 * u

    return SemilinearProblem(
        name="black-scholes-default",
        title="Black-Scholes equation with default risk",
        dimension=dimension,
        until=1.0,
        start=100.0,
        process="geometric",
        volatility=0.2,
        drift=0.02,
        source=source,
        terminal=lambda x: x.min(1, keepdim=True).values,
        steps=40,
        reference=(lambda: 57.300) if dimension == 100 else None,
    )
