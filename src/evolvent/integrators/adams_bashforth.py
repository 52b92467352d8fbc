"""The two-step method of Adams and Bashforth."""

from __future__ import annotations

from evolvent._core.state import State, combine
from evolvent.dynamics import Dynamics
from evolvent.integrators._contract import Integrator
from evolvent.integrators._history import join, split


class AdamsBashforth2(Integrator[Dynamics]):
    r"""Second order from one evaluation per step, by remembering the last one.

    .. math:: u_{j+1} = u_j + h \bigl(\tfrac32 F_j - \tfrac12 F_{j-1}\bigr), \qquad F_j = F(t_j, u_j)

    Bashforth and Adams 1883. Its state is :math:`(u_j, F_{j-1})`; with :math:`F_{-1} = F_0` the first step is Euler's,
    which leaves the order at two.
    """

    order = 2
    real_stability = 1.0
    imaginary_stability = 0.0

    def start(self, f: Dynamics, t: float, u: State, h: float) -> State:
        return join(u, f(t, u))

    def step(self, f: Dynamics, t: float, u: State, h: float) -> State:
        value, before = split(u)
        now = f(t, value)
        return join(combine(value, (1.5 * h, now), (-0.5 * h, before)), now)

    def finish(self, u: State, h: float) -> State:
        return split(u)[0]
