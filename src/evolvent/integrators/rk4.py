"""The classical Runge-Kutta method."""

from __future__ import annotations

from evolvent._core.state import State, axpy, combine
from evolvent.dynamics import Dynamics
from evolvent.integrators._contract import Integrator


class RK4(Integrator[Dynamics]):
    r"""The classical Runge-Kutta method of four stages.

    .. math::
        k_1 = F(t, u), \quad k_2 = F(t + \tfrac h2, u + \tfrac h2 k_1), \quad
        k_3 = F(t + \tfrac h2, u + \tfrac h2 k_2), \quad k_4 = F(t + h, u + h k_3), \\
        u^+ = u + \tfrac h6 (k_1 + 2 k_2 + 2 k_3 + k_4)

    Kutta 1901. Its stability interval on the negative real axis ends where
    :math:`1 + z + z^2/2 + z^3/6 + z^4/24 = 1`, that on the imaginary axis at :math:`2\sqrt2`.
    """

    order = 4
    real_stability = 2.785293563405282
    imaginary_stability = 2.8284271247461903

    def step(self, f: Dynamics, t: float, u: State, h: float) -> State:
        k1 = f(t, u)
        k2 = f(t + h / 2, axpy(u, h / 2, k1))
        k3 = f(t + h / 2, axpy(u, h / 2, k2))
        k4 = f(t + h, axpy(u, h, k3))
        return combine(u, (h / 6, k1), (h / 3, k2), (h / 3, k3), (h / 6, k4))
