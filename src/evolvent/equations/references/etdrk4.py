"""The exponential Runge-Kutta method of fourth order for periodic equations, in Fourier space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Values = np.ndarray  # at the points of a grid, (modes,), real or complex


@dataclass(frozen=True)
class PeriodicEquation:
    r"""An equation :math:`u_t = L u + s(u) - \partial_x f(u)` on a periodic interval, with L of constant coefficients.

    Args:
        symbol: :math:`L e^{ikx} = \lambda(k)\, e^{ikx}`, as a function of an array of wave numbers k.
        source: :math:`s`, of the values of u.
        flux: :math:`f`, of the values of u.
        real: whether u is real.

    >>> burgers = PeriodicEquation(lambda k: -0.01 * k**2, flux=lambda u: u**2 / 2)
    """

    symbol: Callable[[np.ndarray], np.ndarray]
    source: Callable[[Values], Values] | None = None
    flux: Callable[[Values], Values] | None = None
    real: bool = True


class Etdrk4:
    r"""Steps of fixed size for :math:`v' = \lambda v + N(v)`, the Fourier coefficients of u (Cox and Matthews 2002).

    The linear part is solved exactly, so its stiffness does not limit the step. The coefficients have removable
    singularities at 0; they are means over a circle around :math:`h \lambda` (Kassam and Trefethen 2005).

    Args:
        equation: what is solved.
        length: of the periodic interval.
        modes: points of the grid.
        step: size h of the time step.
    """

    order = 4

    def __init__(self, equation: PeriodicEquation, length: float, modes: int, step: float) -> None:
        self.equation, self.modes = equation, modes
        spacing = length / modes / (2 * np.pi)
        self.k = np.fft.rfftfreq(modes, spacing) if equation.real else np.fft.fftfreq(modes, spacing)
        self._slope = 1j * self.k
        if modes % 2 == 0:
            self._slope[modes // 2] = 0  # the derivative of the highest wave is not seen on the grid
        z = step * np.asarray(equation.symbol(self.k), dtype=complex)
        self.full, self.half = np.exp(z), np.exp(z / 2)
        circle = z[:, None] + np.exp(2j * np.pi * (np.arange(64) + 0.5) / 64)
        e = np.exp(circle)
        self.q = step * ((np.exp(circle / 2) - 1) / circle).mean(1)
        self.f1 = step * ((-4 - circle + e * (4 - 3 * circle + circle**2)) / circle**3).mean(1)
        self.f2 = step * (2 * (2 + circle + e * (circle - 2)) / circle**3).mean(1)
        self.f3 = step * ((-4 - 3 * circle - circle**2 + e * (4 - circle)) / circle**3).mean(1)

    def to_waves(self, u: Values) -> np.ndarray:
        """Fourier coefficients of values on the grid."""
        return np.fft.rfft(u) if self.equation.real else np.fft.fft(u)

    def to_values(self, v: np.ndarray) -> Values:
        """Values on the grid from Fourier coefficients."""
        return np.fft.irfft(v, self.modes) if self.equation.real else np.fft.ifft(v)

    def nonlinear(self, v: np.ndarray) -> np.ndarray:
        """Fourier coefficients of :math:`s(u) - f(u)_x`."""
        u, total = self.to_values(v), np.zeros_like(v)
        if self.equation.source is not None:
            total = total + self.to_waves(self.equation.source(u))
        if self.equation.flux is not None:
            total = total - self._slope * self.to_waves(self.equation.flux(u))
        return total

    def step(self, v: np.ndarray) -> np.ndarray:
        """One step of the coefficients."""
        at_v = self.nonlinear(v)
        a = self.half * v + self.q * at_v
        at_a = self.nonlinear(a)
        at_b = self.nonlinear(self.half * v + self.q * at_a)
        at_c = self.nonlinear(self.half * a + self.q * (2 * at_b - at_v))
        return self.full * v + self.f1 * at_v + self.f2 * (at_a + at_b) + self.f3 * at_c
