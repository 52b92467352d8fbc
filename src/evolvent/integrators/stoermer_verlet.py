"""The symmetric Verlet method for partitioned dynamics."""

from __future__ import annotations

from evolvent.dynamics import PartitionedDynamics
from evolvent.integrators._contract import Coupling, ReversibleIntegrator


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
