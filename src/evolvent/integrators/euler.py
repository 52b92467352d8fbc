"""The explicit Euler method, plain and projected."""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent._core.state import State, axpy
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
