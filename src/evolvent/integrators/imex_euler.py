"""The implicit-explicit Euler method."""

from __future__ import annotations

from torch import Tensor

from evolvent._core.state import State
from evolvent.dynamics import SplitDynamics
from evolvent.integrators._contract import Integrator


class ImexEuler(Integrator[SplitDynamics]):
    r"""Euler's method for the mild part and backward Euler for the stiff one of :math:`u' = f(t, u) - L(t)\, u`.

    .. math:: (I + h L(t))\, u^+ = u + h f(t, u)

    The step of IMEXnet, Haber, Lensink, Treister, Ruthotto 2019. No :math:`h` is too large for :math:`L`; every step
    sees the whole domain.
    """

    order = 1
    acts_on = SplitDynamics

    def step(self, f: SplitDynamics, t: float, u: State, h: float) -> State:
        assert isinstance(u, Tensor)
        return f.solve(t, u + h * f.explicit(t, u), h)
