"""The trainable two-step method of LM-ResNet."""

from __future__ import annotations

import torch
from torch import nn

from evolvent._core.errors import ConfigError
from evolvent._core.state import State, combine
from evolvent.dynamics import Dynamics
from evolvent.integrators._contract import Integrator
from evolvent.integrators._history import join, split


class LinearMultistep(nn.Module, Integrator[Dynamics]):
    r"""A two-step method with one trainable number per step.

    .. math:: u_{j+1} = (1 - k_j)\, u_j + k_j\, u_{j-1} + h F(t_j, u_j)

    The step of LM-ResNet, Lu, Zhong, Li, Dong 2018. Its state is :math:`(u_j, u_{j-1})` with :math:`u_{-1} = u_0`, so
    that :math:`k_0` has no effect. At :math:`k = 0`, where it starts, it is Euler's method; the claims hold there.
    Elsewhere it solves :math:`(1 + k)\, u' + (1 - k) \tfrac h2 u'' = F` to second order.

    Args:
        steps: the most steps it makes; an evolution registers it and trains ``k`` of shape (steps,).
        k: initial value of all :math:`k_j`.
    """

    order = 1
    real_stability = 2.0
    imaginary_stability = 0.0

    def __init__(self, steps: int, k: float = 0.0) -> None:
        super().__init__()
        if steps < 1:
            raise ConfigError(f"LinearMultistep has one number per step and needs steps >= 1, got {steps}.")
        self.k = nn.Parameter(torch.full((steps,), float(k)))

    def start(self, f: Dynamics, t: float, u: State, h: float) -> State:
        return join(u, u)

    def step(self, f: Dynamics, t: float, u: State, h: float) -> State:
        value, before = split(u)
        k = self.k[self._index(t, h)]
        return join(combine(value, (k, before), (-k, value), (h, f(t, value))), value)

    def finish(self, u: State, h: float) -> State:
        return split(u)[0]

    def _index(self, t: float, h: float) -> int:
        j = round(t / h)
        if not 0 <= j < len(self.k):
            raise ConfigError(
                f"LinearMultistep(steps={len(self.k)}) has no k for step {j} at t={t:g}, h={h:g}; "
                "build it with as many steps as the evolution makes."
            )
        return j

    def extra_repr(self) -> str:
        return f"steps={len(self.k)}"
