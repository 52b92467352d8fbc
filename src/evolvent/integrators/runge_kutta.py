"""Explicit one-step methods of fixed size: Euler, plain and projected, Heun, and the classical Runge-Kutta method."""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent._core.state import State, axpy, combine
from evolvent.dynamics import Dynamics
from evolvent.integrators._contract import Integrator


class Euler(Integrator[Dynamics]):
    r"""Explicit Euler, :math:`u^+ = u + h F(t, u)`: the step of a ResNet (Haber and Ruthotto 2017)."""

    order = 1
    real_stability = 2.0
    imaginary_stability = 0.0

    def step(self, f: Dynamics, t: float, u: State, h: float) -> State:
        return axpy(u, h, f(t, u))


class ProjectedEuler(Integrator[Dynamics]):
    r"""Explicit Euler followed by projection onto :math:`u \ge 0`, :math:`u^+ = \max(0, u + h F(t, u))`.

    With :math:`h = 1` this is the original ResNet step (He et al. 2016), whose last ReLU acts on the sum. It is the
    forward-backward step of the inclusion :math:`u' \in F(t, u) - N_{u \ge 0}(u)`; on a solution that stays positive
    it is Euler's.
    """

    order = 1

    def step(self, f: Dynamics, t: float, u: State, h: float) -> Tensor:
        advanced = axpy(u, h, f(t, u))
        assert isinstance(advanced, Tensor)
        return torch.relu(advanced)


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


class RK4(Integrator[Dynamics]):
    r"""The classical Runge-Kutta method, with four evaluations per step.

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
