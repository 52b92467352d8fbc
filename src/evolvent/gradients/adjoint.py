"""Gradients by the adjoint differential equation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent._core.first_order import first_order_only, wants_backward
from evolvent._core.state import State, parts
from evolvent.dynamics import Dynamics
from evolvent.gradients._contract import STRATEGIES, GradientStrategy, Propagator
from evolvent.gradients.replay import Accumulator, Replay, trainable
from evolvent.integrators import RK4, Dopri5, Euler, Heun, Integrator


class ContinuousAdjoint(GradientStrategy):
    r"""Optimise, then discretise: solves the adjoint equation backwards in time, and the state's along with it.

    .. math:: u' = F(t, u; \theta), \qquad a' = -(\partial_u F)^\top a, \qquad
              \bar\theta = \int_0^T (\partial_\theta F)^\top a \, dt

    Chen et al. 2018. The value is that of the evolution's own method; backwards an explicit method of the same order
    (Euler, Heun, RK4, or Dopri5 for itself) takes the same steps. So the gradient is that of the continuous problem up
    to an error of the method's order, not that of the discrete steps. Memory does not depend on the number of steps.
    Dynamics that forget, such as parabolic ones, cannot be solved backwards for long: prefer
    :class:`~evolvent.gradients.Checkpoint` there (Gholami et al. 2019).
    """

    name = "adjoint"
    exact = False

    def check_method(self, integrator: Integrator[Any]) -> None:
        if type(integrator).start is not Integrator.start or type(integrator).finish is not Integrator.finish:
            raise ConfigError(
                f"the gradient strategy 'adjoint' needs a method whose state is the value alone, but {integrator} "
                "carries more. Use the strategy 'checkpoint', which takes every method."
            )

    def propagate(self, evolution: Propagator, u: State) -> State:
        self.check_method(evolution.integrator)
        start, parameters = parts(u), trainable(evolution)
        if not wants_backward(*start, *parameters):
            for j in range(evolution.steps):
                u = evolution.step(j, u)
            return u
        end: Any = _Adjoint.apply(evolution, isinstance(u, tuple), len(start), *start, *parameters)
        return end if isinstance(u, tuple) else end[0]


STRATEGIES.add(ContinuousAdjoint.name, ContinuousAdjoint)


class _Adjoint(torch.autograd.Function):
    """All steps of an evolution as one function of the first state's parts and the parameters."""

    @staticmethod
    def forward(ctx: Any, evolution: Propagator, several: bool, count: int, *tensors: Tensor) -> Any:
        start, parameters = tensors[:count], tensors[count:]
        ctx.replay = Replay(evolution.modules(), start)
        u: State = start if several else start[0]
        with ctx.replay.first():
            for j in range(evolution.steps):
                ctx.replay.mark()
                u = evolution.step(j, u)
        ctx.save_for_backward(*parts(u))
        ctx.evolution, ctx.several, ctx.parameters = evolution, several, parameters
        return parts(u)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        evolution, h, n = ctx.evolution, ctx.evolution.step_size, len(cotangents)
        method, sums = _method_backwards(evolution.integrator), Accumulator(ctx.parameters)
        state = (*ctx.saved_tensors, *cotangents)
        with ctx.replay.again():
            for j in reversed(range(evolution.steps)):
                ctx.replay.rewind(j)
                f = evolution.dynamics_at(j)
                parameters = [p for p in f.parameters() if p in sums.known]
                backwards = _Backwards(f, (j + 1) * h, n if ctx.several else None, parameters)
                zeros = [torch.zeros_like(p) for p in parameters]
                state = parts(method.step(backwards, 0.0, (*state, *zeros), h))
                sums.add(parameters, state[2 * n :])
                state = state[: 2 * n]
        return None, None, None, *state[n:], *sums.gradients()


class _Backwards(Dynamics):
    r"""State, adjoint and parameter gradient, :math:`(u, a, \bar\theta)`, in the reversed time :math:`s = t_1 - t`:
    :math:`(-F,\; (\partial_u F)^\top a,\; (\partial_\theta F)^\top a)`.

    Args:
        f: the right-hand side :math:`F`.
        begin: the time :math:`t_1` that :math:`s` counts from.
        count: number of the state's parts, None for a lone tensor.
        wanted: the parameters :math:`\theta`.
    """

    def __init__(self, f: Dynamics, begin: float, count: int | None, wanted: list[Any]) -> None:
        super().__init__()
        self.f, self.begin, self.count, self.wanted = f, begin, count, wanted

    def forward(self, t: float, u: State) -> State:
        n = self.count or 1
        with torch.enable_grad():
            arguments = tuple(part.detach().requires_grad_() for part in u[:n])
            slope = parts(self.f(self.begin - t, arguments if self.count else arguments[0]))
            pulled = torch.autograd.grad(
                [r for r in slope if r.requires_grad],
                [*arguments, *self.wanted],
                [a.to(r.dtype) for a, r in zip(u[n : 2 * n], slope, strict=True) if r.requires_grad],
                materialize_grads=True,
            )
        return *(-r.detach() for r in slope), *pulled


def _method_backwards(integrator: Integrator[Any]) -> Integrator[Any]:
    """An explicit method of the same order for a system without special structure."""
    if isinstance(integrator, Dopri5):
        return integrator
    return {1: Euler(), 2: Heun()}.get(integrator.order, RK4())
