"""The leapfrog method for equations of second order."""

from __future__ import annotations

from evolvent._core.state import State
from evolvent.dynamics import SecondOrderDynamics
from evolvent.integrators._contract import Coupling, ReversibleIntegrator


class Leapfrog(ReversibleIntegrator[SecondOrderDynamics]):
    r"""Two-step method for :math:`u'' = a(t, u)`: explicit, symplectic and exactly reversible.

    .. math:: u_{j+1} = 2 u_j - u_{j-1} + h^2 a(t_j, u_j), \qquad u_{-1} = u_0 - h v_0 + \tfrac{h^2}2 a(t_0, u_0)

    The step of hyperbolic networks, Ruthotto and Haber 2020. Its state is :math:`(u_{j-1}, u_j)`. The order is that of
    the position; the velocity handed back, :math:`(u_j - u_{j-1}) / h`, belongs to half a step earlier and is of first
    order at :math:`t_j`.
    """

    order = 2
    acts_on = SecondOrderDynamics
    imaginary_stability = 2.0
    arrangement = (1, 0)

    def start(self, f: SecondOrderDynamics, t: float, u: State, h: float) -> State:
        position, velocity = u
        return position - h * velocity + h**2 / 2 * f.acceleration(t, position), position

    def couplings(self, f: SecondOrderDynamics, t: float, h: float) -> list[Coupling]:
        return [Coupling(target=0, source=1, sign=-1, g=lambda u: 2 * u + h**2 * f.acceleration(t, u))]

    def finish(self, u: State, h: float) -> State:
        before, now = u
        return now, (now - before) / h
