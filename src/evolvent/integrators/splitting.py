"""Methods for split dynamics: the stiff part is implicit, the mild part explicit, in one step or in turn."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent._core.state import State
from evolvent.dynamics import Dynamics, SplitDynamics
from evolvent.integrators._contract import Integrator
from evolvent.integrators.runge_kutta import Heun


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


class _Splitting(Integrator[SplitDynamics]):
    """A method with a one-step method for the mild part.

    Args:
        mild: method for :math:`u' = f(t, u)`; :class:`~evolvent.integrators.Heun` unless given.
    """

    acts_on = SplitDynamics

    def __init__(self, mild: Integrator[Dynamics] | None = None) -> None:
        self.mild = mild or Heun()
        if self.mild.acts_on is not Dynamics or type(self.mild).start is not Integrator.start:
            raise ConfigError(
                f"{type(self).__name__} needs a one-step method for any dynamics, such as Heun(), got {mild}."
            )

    def _flow_mild(self, f: SplitDynamics, t: float, u: Tensor, h: float) -> Tensor:
        flowed = self.mild.step(cast(Dynamics, f.explicit), t, u, h)  # a method only calls its dynamics
        assert isinstance(flowed, Tensor)
        return flowed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if type(self.mild) is Heun else self.mild})"


class LieTrotter(_Splitting):
    r"""First the mild part for a step, then the stiff one.

    .. math:: u^+ = \Phi^L_{t,h}\bigl(\Phi^f_{t,h}(u)\bigr)

    with :math:`\Phi^f` a step of a method for :math:`u' = f(t, u)` and :math:`\Phi^L` the way in which the dynamics
    follow :math:`u' = -L u`, :meth:`~evolvent.dynamics.SplitDynamics.relax`; by default that is backward Euler. Trotter
    1959; eqs. (6) and (7) of Wang et al. for :class:`~evolvent.dynamics.ConvectionDiffusion`. With Euler's method for
    :math:`f` and backward Euler it is :class:`~evolvent.integrators.ImexEuler`.

    Args:
        mild: one-step method for the mild part; :class:`~evolvent.integrators.Heun` unless given.
    """

    order = 1

    def step(self, f: SplitDynamics, t: float, u: State, h: float) -> State:
        assert isinstance(u, Tensor)
        return f.relax(t, self._flow_mild(f, t, u, h), h)


class Strang(_Splitting):
    r"""Half a step of the stiff part, a step of the mild one, and again half a step of the stiff part.

    .. math::
        u^+ = S_{h/2}\, \Phi^f_{t,h}(S_{h/2}\, u), \qquad
        S_h = (I + \tfrac h2 L)^{-1} (I - \tfrac h2 L)

    with :math:`S` the Crank-Nicolson method for :math:`u' = -L u`, :math:`L` that of the middle of the step, and
    :math:`\Phi^f` a step of a method of second order for :math:`u' = f(t, u)`. Strang 1968. No :math:`h` is too large
    for :math:`L`, but the stiffest modes decay slowly and with changing sign; where that shows, use
    :class:`~evolvent.integrators.ImexEuler`.

    Args:
        mild: one-step method for the mild part; :class:`~evolvent.integrators.Heun` unless given.
    """

    order = 2

    def __init__(self, mild: Integrator[Dynamics] | None = None) -> None:
        super().__init__(mild)
        if self.mild.order < self.order:
            raise ConfigError(f"Strang needs a method of order 2 or more, such as Heun(), got {mild}.")

    def step(self, f: SplitDynamics, t: float, u: State, h: float) -> State:
        assert isinstance(u, Tensor)
        middle = t + h / 2
        entered = _crank_nicolson(f, middle, u, h / 2)
        return _crank_nicolson(f, middle, self._flow_mild(f, t, entered, h), h / 2)


def _crank_nicolson(f: SplitDynamics, t: float, u: Tensor, h: float) -> Tensor:
    return f.solve(t, u - h / 2 * f.stiff(t, u), h / 2)
