"""Heun's method."""

from __future__ import annotations

from evolvent._core.state import State, axpy, combine
from evolvent.dynamics import Dynamics
from evolvent.integrators._contract import Integrator


class Heun(Integrator[Dynamics]):
    r"""Explicit trapezoidal rule, also called improved Euler.

    .. math:: k_1 = F(t, u), \quad k_2 = F(t + h, u + h k_1), \quad u^+ = u + \tfrac h2 (k_1 + k_2)

    Heun 1900.
    """

    order = 2
    real_stability = 2.0
    imaginary_stability = 0.0

    def step(self, f: Dynamics, t: float, u: State, h: float) -> State:
        k1 = f(t, u)
        k2 = f(t + h, axpy(u, h, k1))
        return combine(u, (h / 2, k1), (h / 2, k2))
