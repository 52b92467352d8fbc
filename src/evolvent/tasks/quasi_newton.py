"""Quasi-Newton methods with a dense inverse Hessian, for networks of up to some thousands of parameters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_choice, check_whole
from evolvent._core.errors import ConfigError, NonFiniteError
from evolvent.tasks.flat_optimizer import FlatOptimizer
from evolvent.tasks.inverse_hessian import Formula, InverseHessian
from evolvent.tasks.line_search import strong_wolfe

MOST_BYTES = 4 * 2**30
"""The largest inverse Hessian that is made."""

FORMULAS: dict[str, str] = {"bfgs": "BFGS", "ssbfgs": "self-scaled BFGS", "ssbroyden": "self-scaled Broyden"}


class PrecisionWarning(UserWarning):
    """The rounding of float32 ended an optimisation that float64 would have carried on."""


def warn_of_precision(method: str, reason: str) -> None:
    """Say that a method ended for a reason that float64 would not have had."""
    warnings.warn(
        f"float32 ended {method}: {reason}. Train in float64 (training.precision: 64-true).",
        PrecisionWarning,
        stacklevel=3,
    )


class QuasiNewton(FlatOptimizer):
    r"""Minimises by :math:`x^+ = x - \alpha H g` with an inverse Hessian that is learned from gradients.

    The objective must be the same for all iterations of a step, since gradients are compared; between steps it may
    change, as collocation points do. The line search satisfies the strong Wolfe conditions. After each step
    :attr:`stopped` says why the method can do no more, or is empty.

    Args:
        params: what is minimised over, all in one group.
        formula: ``ssbroyden``, ``ssbfgs`` or ``bfgs``; see :func:`~evolvent.tasks.inverse_hessian.scaling`.
        iterations: of each step.

    >>> x = nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64))
    >>> optimizer = QuasiNewton([x], iterations=60)
    >>> def rosenbrock():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(rosenbrock)
    >>> [round(value, 6) for value in x.tolist()]
    [1.0, 1.0]
    """

    def __init__(
        self, params: Iterable[nn.Parameter], formula: Formula = "ssbroyden", iterations: int = 20, lr: float = 1.0
    ) -> None:
        check_choice("formula", formula, FORMULAS)
        check_whole(1, iterations=iterations)
        super().__init__(params, {"formula": formula, "iterations": iterations, "lr": lr})
        _check_memory(self._size, self._params[0])
        self._diverged = False  # whether a line search of this step met numbers that are not finite

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor]) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Iterate; returns the objective at the start, as PyTorch's optimisers do."""
        evaluate = torch.enable_grad()(closure)
        self.stopped, group, state = "", self.param_groups[0], self._state()
        self._diverged = False
        hessian = InverseHessian(state["inverse"], group["formula"])
        first = evaluate()
        x, value, gradient = self._flat(), first.item(), self._gradient()
        direction = -hessian.times(gradient)
        for _ in range(group["iterations"]):
            self.stopped = self._why_no_descent(value, gradient)
            if self.stopped:
                break
            before = state["before"] if state["updates"] else value + gradient.norm().item() / 2
            found = self._search(evaluate, x, direction, value, gradient, before)
            if found is None and state["updates"]:  # what was learned may mislead: begin anew
                hessian, direction = self._forget(group["formula"]), -gradient
                continue
            if found is None:
                self.stopped = self._no_progress(value, state["iterations"])
                break
            s, y = found.step * direction, found.gradient - gradient
            ys, sbs = torch.dot(y, s).item(), -found.step * torch.dot(s, gradient).item()
            x, state["before"], value, gradient = x + s, value, found.value, found.gradient
            state["iterations"] += 1
            if not ys > 0:
                direction = -hessian.times(gradient)
                continue
            if not state["updates"]:  # the first step knows the size of the curvature
                scale = ys / torch.dot(y, y).item()
                hessian.scale(scale)
                direction, sbs = direction * scale, sbs / scale
            image = hessian.times(gradient)
            hy = image + direction
            direction = -hessian.update(s, hy, ys, torch.dot(y, hy).item(), sbs, image, gradient)
            state["updates"] += 1
            if not torch.dot(direction, gradient) < 0:
                hessian, direction = self._forget(group["formula"]), -gradient
        hessian.settle()
        self._place(x)
        return first

    def _search(
        self, closure: Callable[[], Tensor], x: Tensor, direction: Tensor, value: float, gradient: Tensor, before: float
    ) -> Any:
        def at(step: float) -> tuple[float, Tensor]:
            self._place(x + step * direction)
            return closure().item(), self._gradient()

        slope = torch.dot(direction, gradient).item()
        try:
            return strong_wolfe(at, direction, value, slope, before) if slope < 0 else None
        except NonFiniteError:  # a trial went too far: what was learned of the curvature is wrong, or the objective is
            self._diverged = True
            return None

    def _no_progress(self, value: float, iterations: int) -> str:
        if self._diverged:
            return (
                f"after {iterations} iterations every step from {value:.3g} leads to numbers that are not finite; "
                "begin with a first-order phase or easier coefficients, or weigh the parts of the objective otherwise"
            )
        reason = self._rounded_away(value, iterations)
        if self._dtype == torch.float32:
            warn_of_precision(FORMULAS[self.param_groups[0]["formula"]], reason)
        return reason

    def _state(self) -> dict[str, Any]:
        state = self.state[self._params[0]]
        if not state:
            state.update(iterations=0, updates=0, before=math.inf)
            self._forget(self.param_groups[0]["formula"])
        return state

    def _forget(self, formula: Formula) -> InverseHessian:
        state = self.state[self._params[0]]
        _check_memory(self._size, self._params[0])  # again: parameters may have become float64 since they were given
        hessian = InverseHessian.identity(self._size, self._params[0], formula)
        state["inverse"], state["updates"] = hessian.matrix, 0
        return hessian

    def _gradient(self) -> Tensor:
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return torch.cat([part.flatten() for part in parts])


def _check_memory(size: int, like: Tensor) -> None:
    needed = size * size * like.element_size()
    if needed > MOST_BYTES:
        most = math.isqrt(MOST_BYTES // like.element_size())
        raise ConfigError(
            f"{size:,} parameters need an inverse Hessian of {needed / 2**30:.1f} GiB, more than "
            f"{MOST_BYTES / 2**30:g} GiB. Take lbfgs, which keeps a few vectors, or a network of at most {most:,} "
            "parameters."
        )
