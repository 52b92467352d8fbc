"""The Gauss-Newton method with damping, for objectives that are sums of squares of few residuals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError, NonFiniteError
from evolvent.tasks.flat_optimizer import FlatOptimizer
from evolvent.tasks.quasi_newton import MOST_BYTES, warn_of_precision

_FIRST = 1e-3  # damping to begin with, over the mean of the diagonal of the Gauss-Newton matrix
_MOST = 1e8  # damping beyond which steps are those of gradient descent, and tiny
_GROWTH, _SHRINKAGE = 3.0, 5.0  # of the damping after a step that failed, or went as predicted
_LITTLE = 0.1  # of a step, after which its curvature is looked at
_BENT = 0.375  # of its length, the most that the curvature may change a step
_GOOD, _POOR = 0.75, 0.25  # shares of the predicted decrease


@dataclass(frozen=True)
class ResidualBlock:
    """Some of the residuals whose squares add up to an objective.

    Attributes:
        values: (m,).
        jacobian: computes their derivatives in all parameters, (m, parameters).
    """

    values: Tensor
    jacobian: Callable[[], Tensor]


Residuals = Callable[[], Sequence[ResidualBlock]]


class GaussNewton(FlatOptimizer):
    r"""Minimises :math:`|r(x)|^2` by :math:`x^+ = x - (J^\top J + \lambda I)^{-1} J^\top r` with :math:`J = r'(x)`.

    For residuals of a linear equation this is the energy natural gradient (Müller and Zeinhofer 2023). With fewer
    residuals than parameters the step is :math:`J^\top (J J^\top + \lambda I)^{-1} r` by Woodbury's identity
    (Guzmán-Cordero et al. 2025), so that the smaller one of two matrices is factorised. Levenberg's damping
    :math:`\lambda` grows until the objective falls, and shrinks where it falls as predicted. After each step
    :attr:`stopped` says why the method can do no more, or is empty.

    Args:
        params: what is minimised over, all in one group.
        iterations: of each step, on the same residuals.

    >>> x = nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64))
    >>> optimizer = GaussNewton([x], iterations=30)
    >>> def residuals():  # Rosenbrock's valley
    ...     r = torch.stack([1 - x[0], 10 * (x[1] - x[0] ** 2)]).detach()
    ...     rows = torch.tensor([[-1.0, 0.0], [-20 * x[0].item(), 10.0]], dtype=torch.float64)
    ...     return [ResidualBlock(r, lambda: rows)]
    >>> loss = optimizer.step(lambda: residuals()[0].values.square().sum(), residuals)
    >>> [round(value, 6) for value in x.tolist()]
    [1.0, 1.0]
    """

    needs_residuals = True

    def __init__(self, params: Iterable[nn.Parameter], iterations: int = 1, lr: float = 1.0) -> None:
        check_whole(1, iterations=iterations)
        super().__init__(params, {"iterations": iterations, "lr": lr})

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, closure: Callable[[], Tensor], residuals: Residuals
    ) -> Tensor:
        """Iterate; returns the objective at the start.

        Args:
            closure: the objective; its gradient is not used.
            residuals: its residuals, at the same point.
        """
        evaluate, state = torch.enable_grad()(closure), self.state[self._params[0]]
        if not state:
            state.update(iterations=0, damping=_FIRST)
        self.stopped, first = "", evaluate()
        value = first.item()
        for _ in range(self.param_groups[0]["iterations"]):
            found = self._descend(evaluate, residuals, value, state)
            if found is None:
                break
            value = found
            state["iterations"] += 1
        return first

    def _descend(
        self, evaluate: Callable[[], Tensor], residuals: Residuals, value: float, state: dict[str, Any]
    ) -> float | None:
        """One iteration: a step with more and more damping until the objective falls; None where it never does."""
        start, model, finite = self._flat(), Linearised.of(residuals(), self._size), True
        self.stopped = self._why_no_descent(value, model.gradient)
        if self.stopped:
            return None
        while state["damping"] <= _MOST:
            found = model.step(state["damping"])
            if found is not None:
                self._place(start - self._bent(start, found, model, residuals))
                reached = self._value(evaluate)
                finite = finite and math.isfinite(reached)
                share = (value - reached) / max(found.decrease, 1e-300)
                if reached < value:
                    if share > _GOOD:
                        state["damping"] = max(state["damping"] / _SHRINKAGE, self._least_damping)
                    elif share < _POOR:
                        state["damping"] *= _GROWTH
                    return reached
            state["damping"] *= _GROWTH
        self._place(start)
        state["damping"] = _FIRST
        self.stopped = self._no_progress(value, state["iterations"], finite)
        return None

    def _bent(self, start: Tensor, straight: Step, model: Linearised, residuals: Residuals) -> Tensor:
        r"""The step with its correction of second order, where that is small enough to be one.

        The second derivative along the step comes from the residuals a little further, without another Jacobian.
        """
        self._place(start - _LITTLE * straight.direction)
        moved = torch.cat([block.values for block in residuals()])
        slope = -(model.jacobian @ straight.direction)
        curvature = (2 / _LITTLE) * ((moved - model.values) / _LITTLE - slope)
        bend = straight.solve(curvature / 2)
        small = bend.norm() <= _BENT * straight.direction.norm()
        return straight.direction + bend if small else straight.direction

    def _value(self, evaluate: Callable[[], Tensor]) -> float:
        try:
            return evaluate().item()
        except NonFiniteError:
            return math.inf

    def _no_progress(self, value: float, iterations: int, finite: bool) -> str:
        reason = self._rounded_away(value, iterations)
        if not finite:
            reason += ", and long ones lead to numbers that are not finite"
        if self._dtype == torch.float32:
            warn_of_precision("Gauss-Newton", reason)
        return reason

    @property
    def _least_damping(self) -> float:
        return 10 * torch.finfo(self._dtype).eps


class Linearised:
    r"""Residuals to first order, :math:`r - J d`, and their least squares with damping.

    Args:
        values: :math:`r`, (m,).
        jacobian: :math:`J`, (m, n).
    """

    def __init__(self, values: Tensor, jacobian: Tensor) -> None:
        self.values, self.jacobian = values, jacobian
        self.gradient = jacobian.T @ values  # half of it
        self.few = len(values) <= jacobian.shape[1]
        self.gram = jacobian @ jacobian.T if self.few else jacobian.T @ jacobian
        self.mean = self.gram.diagonal().mean().item()

    @classmethod
    def of(cls, blocks: Sequence[ResidualBlock], size: int) -> Linearised:
        """From blocks of residuals, unless that would take too much memory."""
        values = torch.cat([block.values for block in blocks])
        _check_memory(len(values), size, values)
        jacobian = values.new_empty(len(values), size)
        for rows, block in zip(jacobian.split([len(block.values) for block in blocks]), blocks, strict=True):
            rows.copy_(block.jacobian())
        return cls(values, jacobian)

    def step(self, damping: float) -> Step | None:
        r"""The d that minimises :math:`|r - J d|^2 + \lambda |d|^2`.

        Args:
            damping: :math:`\lambda` over the mean of the diagonal.

        Returns:
            None where rounding does not let the matrix be factorised.
        """
        matrix = self.gram.clone()
        matrix.diagonal().add_(damping * self.mean)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if failed.any():
            return None

        def solve(values: Tensor) -> Tensor:
            right = values if self.few else self.jacobian.T @ values
            answer = torch.cholesky_solve(right[:, None], factor)[:, 0]
            return self.jacobian.T @ answer if self.few else answer

        direction = solve(self.values)
        left = self.values - self.jacobian @ direction
        decrease = (self.values.square().sum() - left.square().sum()).item()
        return Step(direction, decrease, solve) if direction.isfinite().all() else None


class Step(NamedTuple):
    """A direction, by how much it lowers the squares to first order, and least squares with the same damping."""

    direction: Tensor
    decrease: float
    solve: Callable[[Tensor], Tensor]


def _check_memory(residuals: int, size: int, like: Tensor) -> None:
    needed = (residuals * size + 2 * min(residuals, size) ** 2) * like.element_size()
    if needed > MOST_BYTES:
        most = MOST_BYTES // (like.element_size() * (size + 2 * min(residuals, size)))
        raise ConfigError(
            f"{residuals:,} residuals of {size:,} parameters need matrices of {needed / 2**30:.1f} GiB, more than "
            f"{MOST_BYTES / 2**30:g} GiB. Take at most {most:,} points, ssbroyden, whose matrix is of the parameters "
            "alone, or lbfgs, which keeps a few vectors."
        )
