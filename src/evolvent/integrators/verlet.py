"""The Verlet method for partitioned dynamics."""

from __future__ import annotations

from evolvent._core.state import State
from evolvent.dynamics import PartitionedDynamics
from evolvent.integrators._contract import ReversibleIntegrator


class Verlet(ReversibleIntegrator[PartitionedDynamics]):
    r"""Symplectic, explicit and exactly reversible; both parts advance in turn.

    .. math:: y^+ = y + h\, f(t, z), \qquad z^+ = z + h\, g(t + h, y^+)

    Eq. 2.6 of Bohn, Griebel, Kannan 2021. Read with :math:`z` at half steps this is the second-order Verlet (leapfrog)
    method; with both parts given at the same time, as a network gives them, it is of first order.
    """

    order = 1
    acts_on = PartitionedDynamics

    def step(self, f: PartitionedDynamics, t: float, u: State, h: float) -> State:
        y, z = u
        y = y + h * f.dy(t, z)
        return y, z + h * f.dz(t + h, y)

    def unstep(self, f: PartitionedDynamics, t: float, u: State, h: float) -> State:
        y, z = u
        z = z - h * f.dz(t + h, y)
        return y - h * f.dy(t, z), z
