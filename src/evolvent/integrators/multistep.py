"""Two-step methods, whose state is a value and one more of its kind."""

from __future__ import annotations

import torch
from torch import nn

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.state import State, combine, parts
from evolvent.dynamics import Dynamics
from evolvent.integrators._contract import Integrator


def join(u: State, past: State) -> State:
    """The parts of ``u``, then those of ``past``."""
    return parts(u) + parts(past)


def split(state: State) -> tuple[State, State]:
    """Undoes :func:`join`; two tensors are the history of a tensor, more of them that of a tuple.

    A tuple of one tensor is thus taken for the tensor.
    """
    tensors = parts(state)
    half = len(tensors) // 2
    return (tensors[0], tensors[1]) if half == 1 else (tensors[:half], tensors[half:])


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
        check_whole(steps=steps)
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
