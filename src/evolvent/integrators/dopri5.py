"""The adaptive method of Dormand and Prince."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evolvent._core.checks import check_not_negative, check_whole
from evolvent._core.errors import ConfigError, NonFiniteError
from evolvent._core.state import State, like, parts
from evolvent.dynamics import Dynamics
from evolvent.integrators._contract import Integrator


class Dopri5(Integrator[Dynamics]):
    r"""Adaptive Runge-Kutta method of order five, by torchdiffeq.

    A step from :math:`t` to :math:`t + h` is made of as many inner steps as the tolerances ask for, so that the error
    of each inner step stays below :math:`atol + rtol\, |u|`. The whole interval is tried first and its end is met.

    Dormand and Prince 1980; as a layer, Chen, Rubanova, Bettencourt, Duvenaud 2018.

    Args:
        rtol, atol: relative and absolute tolerance of the error of an inner step.
        max_steps: the most inner steps, accepted or not, that one step may take.
    """

    order = 5
    adaptive = True

    def __init__(self, rtol: float = 1e-6, atol: float = 1e-6, max_steps: int = 10_000) -> None:
        check_not_negative(rtol=rtol, atol=atol)
        check_whole(max_steps=max_steps)
        if rtol == atol == 0:
            raise ConfigError("rtol and atol must not both be 0.")
        self.rtol, self.atol, self.max_steps = rtol, atol, max_steps

    def step(self, f: Dynamics, t: float, u: State, h: float) -> State:
        try:
            return self._solve(f, t, u, h, first_step=h)
        except NonFiniteError:  # the whole interval at once can overflow where a small step does not
            return self._solve(f, t, u, h, first_step=None)

    def _solve(self, f: Dynamics, t: float, u: State, h: float, first_step: float | None) -> State:
        from torchdiffeq import odeint  # imports scipy, which `import evolvent` must not

        times = torch.tensor([t, t + h], dtype=torch.float64, device=parts(u)[0].device)
        options = {"first_step": first_step, "step_t": times[1:]}
        tolerances = {"rtol": self.rtol, "atol": self.atol}
        states: Any = odeint(_Watched(f, self), u, times, **tolerances, method="dopri5", options=options)
        return like(u, [p[-1] for p in parts(states)])

    def __repr__(self) -> str:
        return f"Dopri5(rtol={self.rtol:g}, atol={self.atol:g})"


class _Watched:
    """A right-hand side for torchdiffeq, which calls :meth:`callback_step` before every inner step."""

    def __init__(self, f: Dynamics, method: Dopri5) -> None:
        self.f, self.method, self.taken = f, method, 0

    def __call__(self, t: Tensor, u: State) -> State:
        return self.f(float(t), u)

    def callback_step(self, t: Tensor, u: State, dt: Tensor) -> None:
        if not all(p.isfinite().all() for p in parts(u)):
            raise NonFiniteError(f"{self.method}: the state at t={t.item():g} is not finite; check what goes in.")
        if not t + dt > t:
            raise NonFiniteError(
                f"{self.method}: the inner step size fell to {dt.item():g} at t={t.item():g}. The right-hand side is "
                "not finite there, jumps, or is too stiff for the tolerances: loosen rtol and atol, or use a method "
                "of fixed step such as RK4()."
            )
        if self.taken >= self.method.max_steps:
            raise ConfigError(
                f"{self.method}: {self.taken} inner steps end at t={t.item():g}, before the end of the step. Loosen "
                "rtol and atol, raise max_steps, or treat a stiff part implicitly by ImexEuler()."
            )
        self.taken += 1
