"""The Verlet method for partitioned dynamics."""

from __future__ import annotations

from evolvent.dynamics import PartitionedDynamics
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
