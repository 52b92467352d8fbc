"""The implicit midpoint rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from evolvent._core.checks import check_positive, check_whole
from evolvent._core.errors import ConfigError, NonFiniteError
from evolvent._core.first_order import CarriesDerivatives, first_order_only
from evolvent._core.state import State, axpy, combine, like, parts
from evolvent.dynamics import Dynamics
from evolvent.integrators._contract import Integrator


class ImplicitMidpoint(Integrator[Dynamics]):
    r"""Symplectic, symmetric and A-stable; the midpoint is found by fixed-point iteration.

    .. math:: m = u + \tfrac h2 F(t + \tfrac h2, m), \qquad u^+ = 2 m - u

    Hairer, Lubich, Wanner 2006, section II.1. The iteration converges where :math:`\tfrac h2 \|F'\| < 1`, so it does
    not reach the large steps that A-stability would allow.

    The gradient is that of the implicit function theorem, whatever way the midpoint was found: with :math:`J = F'(m)`,
    a gradient :math:`g` of :math:`m` becomes :math:`w = (I - \tfrac h2 J^\top)^{-1} g`, again by fixed-point iteration.
    (Backpropagation through the iterations would miss it near an equilibrium, where the first guess is already right.)
    One evaluation of :math:`F` is stored. Derivatives of the gradient are not offered.

    Args:
        tolerance: the iteration ends when it changes no number by more than this, relative to the largest number;
            100 times the rounding unit of the dtype unless given.
        max_iterations: the most iterations.
    """

    order = 2

    def __init__(self, tolerance: float | None = None, max_iterations: int = 100) -> None:
        if tolerance is not None:
            check_positive(tolerance=tolerance)
        check_whole(max_iterations=max_iterations)
        self.tolerance, self.max_iterations = tolerance, max_iterations

    def step(self, f: Dynamics, t: float, u: State, h: float) -> State:
        middle = t + h / 2
        by_themselves = any(isinstance(p, CarriesDerivatives) for p in parts(u))
        with torch.set_grad_enabled(torch.is_grad_enabled() and by_themselves):
            m = self.fixed_point(lambda m: axpy(u, h / 2, f(middle, m)), u, h)
        m = axpy(u, h / 2, f(middle, m))
        if torch.is_grad_enabled() and not by_themselves:
            corrected: Any = _ImplicitFunction.apply(self, f, middle, h, isinstance(u, tuple), *parts(m))
            m = like(u, corrected)
        return combine(m, (1.0, m), (-1.0, u))

    def fixed_point(self, phi: Callable[[State], State], u: State, h: float) -> State:
        """The solution of ``u = phi(u)``, from the guess ``u``; ``h`` is for the message if there is none."""
        tolerance = self.tolerance or 100 * torch.finfo(parts(u)[0].dtype).eps
        guess, change = _largest(u), torch.inf
        for _ in range(self.max_iterations):
            before, u = u, phi(u)
            change = _largest(combine(u, (-1.0, before)))
            if not change < torch.inf:
                break
            if change <= tolerance * max(guess, _largest(u)):
                return u
        error = ConfigError if change < torch.inf else NonFiniteError
        raise error(
            f"{self}: the fixed-point iteration does not converge: it still changes by {change:.1e} after at most "
            f"{self.max_iterations} iterations (relative tolerance {tolerance:.1e}). It converges where "
            f"h |F'| / 2 < 1: take a smaller step size than h={h:g}, with more steps."
        )


class _ImplicitFunction(torch.autograd.Function):
    """The identity on a midpoint; its derivative turns that of one iteration into that of the fixed point."""

    @staticmethod
    def forward(
        ctx: Any, method: ImplicitMidpoint, f: Dynamics, t: float, h: float, in_tuple: bool, *m: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.method, ctx.f, ctx.t, ctx.h, ctx.in_tuple = method, f, t, h, in_tuple
        ctx.save_for_backward(*m)
        return tuple(p.view_as(p) for p in m)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, *g: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        inputs = tuple(p.detach().requires_grad_() for p in ctx.saved_tensors)
        with torch.enable_grad():
            outputs = parts(ctx.f(ctx.t, inputs if ctx.in_tuple else inputs[0]))
        live = [i for i, k in enumerate(outputs) if k.requires_grad]

        def phi(w: State) -> State:
            k, w_k = [outputs[i] for i in live], [parts(w)[i] for i in live]
            pulled = torch.autograd.grad(k, inputs, w_k, retain_graph=True, materialize_grads=True)
            return combine(g, (ctx.h / 2, pulled))

        return None, None, None, None, None, *parts(ctx.method.fixed_point(phi, g, ctx.h) if live else g)


def _largest(u: State) -> float:
    numbers = torch.cat([p.detach().abs().flatten() for p in parts(u)])
    return numbers.max().item() if len(numbers) else 0.0
