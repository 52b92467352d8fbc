"""The Verlet methods: explicit, symplectic and exactly reversible, for partitioned and second-order dynamics."""

from __future__ import annotations

from evolvent._core.state import State
from evolvent.dynamics import PartitionedDynamics, SecondOrderDynamics
from evolvent.integrators._contract import Coupling, ReversibleIntegrator


class Verlet(ReversibleIntegrator[PartitionedDynamics]):
    r"""Symplectic, explicit and exactly reversible; both parts advance in turn.

    .. math:: y^+ = y + h\, f(t, z), \qquad z^+ = z + h\, g(t + h, y^+)

    Eq. 2.6 of Bohn, Griebel, Kannan 2021. Read with :math:`z` at half steps this is the second-order Verlet (leapfrog)
    method; with both parts given at the same time, as a network gives them, it is of first order.
    """

    order = 1
    acts_on = PartitionedDynamics
    imaginary_stability = 2.0

    def couplings(self, f: PartitionedDynamics, t: float, h: float) -> list[Coupling]:
        return [
            Coupling(target=0, source=1, sign=1, g=lambda z: f.change_y(t, z, h)),
            Coupling(target=1, source=0, sign=1, g=lambda y: f.change_z(t + h, y, h)),
        ]


class StoermerVerlet(ReversibleIntegrator[PartitionedDynamics]):
    r"""Symmetric, symplectic, explicit and exactly reversible: half a step of :math:`y` before and after one of
    :math:`z`.

    .. math::
        \bar y = y + \tfrac h2 f(t, z), \qquad z^+ = z + h\, g(t + \tfrac h2, \bar y), \qquad
        y^+ = \bar y + \tfrac h2 f(t + h, z^+)

    Hairer, Lubich, Wanner 2003. Unlike :class:`~evolvent.integrators.Verlet` it is of second order with both parts
    given at the same time, for one more evaluation of :math:`f`.
    """

    order = 2
    acts_on = PartitionedDynamics
    imaginary_stability = 2.0

    def couplings(self, f: PartitionedDynamics, t: float, h: float) -> list[Coupling]:
        return [
            Coupling(target=0, source=1, sign=1, g=lambda z: f.change_y(t, z, h / 2)),
            Coupling(target=1, source=0, sign=1, g=lambda y: f.change_z(t + h / 2, y, h)),
            Coupling(target=0, source=1, sign=1, g=lambda z: f.change_y(t + h, z, h / 2)),
        ]


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
