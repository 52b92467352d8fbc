"""The equation of small changes of a solution of one coordinate: errors of ordinary differential equations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent.analysis.solutions.pointwise import shifted, slopes
from evolvent.equations.problems import Condition, Problem
from evolvent.equations.problems.needed import Needed

_COARSER = 4  # a grid with so many times fewer places shows whether the problem determines its solution
_STEADY = 2.0  # times as large at most as there, changes are on the fine grid, if it does
_LARGEST = 1e13  # beyond this, changes are rounding
_LEFT, _ROUNDING = 0.3, 1e-6  # share of the residual that may be left, or how much, in units of the solution over time

Function = Callable[[Tensor], Tensor]


def why_not_ordinary(problem: Problem) -> str:
    """Why small changes of the solution of an ordinary differential equation cannot be followed; empty if they can."""
    if len(problem.domain) != 1 or problem.region is not None or problem.eigenvalue is not None:
        return "that needs one coordinate, and values that are given"
    [(name, ends)] = problem.domain.items()
    for one in problem.conditions:
        if odd := [asked for asked in _asked(problem, one) if set(asked) != {name}]:
            return f"condition {one.name!r} asks for {odd[0]}"
        if one.where.get(name) not in ends:
            return f"condition {one.name!r} does not lie at an end"
    odd = [asked for asked in problem.derivatives_needed if set(asked) != {name}]
    return f"u_{odd[0]} is not a derivative" if odd else ""


def _asked(problem: Problem, condition: Condition) -> list[str]:
    """Names of the derivatives that a condition asks for."""
    probe = Needed(problem.coordinates, len(problem.unknowns), len(problem.space))
    condition.violation(probe)
    return sorted(probe.asked)


class LinearisedOrdinary:
    r"""Small changes e of a solution u of one coordinate.

    .. math:: \sum_k \frac{\partial R}{\partial u^{(k)}} e^{(k)} = -R[u]

    With what is missing of the conditions at both ends, e is to first order the error of u. The equations, as ones of
    first order for e and its derivatives, hold in the middle between two places of a grid, where differences are the
    slope and means the value (the box scheme of Keller 1971, of second order). So nothing is evaluated at an end but
    the conditions.

    Args:
        problem: with one coordinate; see :func:`why_not_ordinary`.
        u: its solution, (N, 1) to (N, unknowns).
        places: of the grid.

    Attributes:
        points: of the grid, (places, 1).
        values: u there, (places, unknowns).
        residual: of u between them, (boxes, equations).

    Raises:
        numpy.linalg.LinAlgError: if the problem is of a form that has no such system.
    """

    def __init__(self, problem: Problem, u: Function, places: int = 2001) -> None:
        [self._name] = problem.coordinates
        self.problem, self._u, self.points = problem, u, problem.grid(places)
        self._periodic = "periodic" in problem.symmetry.get(self._name, "none")
        self._step = (self.points[1] - self.points[0]).item()
        middles = (self.points if self._periodic else self.points[:-1]) + self._step / 2
        with torch.no_grad():
            self.values = u(self.points).double().numpy()
            self._at = problem.derivatives(u, middles)
        residual, found, _ = slopes(problem.residual, self._at, problem.derivatives_needed)
        self.residual, self._slopes = residual.numpy(), {name: one.numpy() for name, one in found.items()}
        unknowns = range(len(problem.unknowns))
        self._orders = [max(len(n) for n, s in self._slopes.items() if s[:, :, j].any() or not n) for j in unknowns]
        self._first = np.cumsum([0, *self._orders])  # where each unknown begins among the unknowns of first order
        if self.residual.shape[1] != len(self._orders):
            raise np.linalg.LinAlgError(f"it has {self.residual.shape[1]} equations for {len(self._orders)} unknowns")
        if not all(self._orders):
            raise np.linalg.LinAlgError("an unknown has no derivative")

    def error(self) -> np.ndarray:
        """The error of u to first order, (places, unknowns), such that u + e solves the problem.

        Raises:
            numpy.linalg.LinAlgError: if the problem does not determine it.
        """
        return self._state[:, self._first[:-1]]

    @cached_property
    def _state(self) -> np.ndarray:
        return self._solved(self._missing())

    def is_determined(self) -> bool:
        """Whether the largest change, by a residual and violations of size one, is not due to the grid and rounding."""
        coarse = LinearisedOrdinary(self.problem, self._u, (len(self.points) - 1) // _COARSER + 1)
        return self._largest_change() <= min(_STEADY * coarse._largest_change(), _LARGEST)

    def is_linear(self) -> bool:
        """Whether u + e leaves much less of a residual than u."""
        after = np.roll(self._state, -1, axis=0) if self._periodic else self._state[1:]
        before = self._state if self._periodic else self._state[:-1]
        means, differences = (before + after) / 2, (after - before) / self._step
        moved = {name: self._derivative(len(name), means, differences) for name in self._slopes}
        with torch.no_grad():
            left = self.problem.residual(shifted(self._at, moved)).numpy()
        sizes = [np.sqrt(np.square(one).mean()) for one in (left, self.residual)]
        return bool(sizes[0] <= max(_LEFT * sizes[1], _ROUNDING))

    def _largest_change(self) -> float:
        draw, shares = np.random.default_rng(0), np.linspace(-1, 1, len(self.residual))[:, None]
        offsets, constants, ramps = draw.normal(size=(3, self._first[-1]))
        right = np.concatenate([offsets[: len(self._given)], (constants + shares * ramps).ravel()])
        return float(np.abs(self._solved(right)).max())

    @cached_property
    def _given(self) -> list[tuple[np.ndarray, float]]:
        """Of each condition its row and what is off."""
        found = [] if self._periodic else list(self._conditions())
        if not self._periodic and len(found) != self._first[-1]:
            raise np.linalg.LinAlgError(f"it has {len(found)} conditions where {self._first[-1]} are needed")
        return found

    def _missing(self) -> np.ndarray:
        """Of conditions, then of the equations of each box."""
        forces = np.zeros((len(self.residual), self._first[-1]))
        forces[:, : self.residual.shape[1]] = -self.residual
        return np.concatenate([[-off for _, off in self._given], forces.ravel()])

    def _solved(self, right: np.ndarray) -> np.ndarray:
        """The unknowns of first order at all places, (places, number)."""
        inverse = self._inverse
        with np.errstate(all="ignore"):
            return inverse.solve(right / self._rows).reshape(len(self.points), -1)

    @cached_property
    def _inverse(self) -> Any:
        """Of the matrix with rows of size one."""
        from scipy.sparse import bsr_array, csc_array, csr_array, diags_array, vstack
        from scipy.sparse.linalg import splu

        size, boxes = int(self._first[-1]), len(self.residual)
        left, right = self._boxes()
        both = np.stack([left, right], axis=1).reshape(-1, size, size)
        columns = (np.arange(boxes)[:, None] + [0, 1]).ravel() % len(self.points)
        shape = (boxes * size, len(self.points) * size)
        matrix = bsr_array((both, columns, np.arange(0, 2 * boxes + 1, 2)), shape=shape)
        rows = [entries for entries, _ in self._given]
        matrix = vstack([csr_array(np.array(rows)), matrix]) if rows else matrix.tocsr()
        self._rows = np.asarray(abs(matrix).sum(axis=1)).clip(1e-300)
        try:
            return splu(csc_array(diags_array(1 / self._rows) @ matrix))
        except RuntimeError as error:
            raise np.linalg.LinAlgError("its matrix is singular: conditions say the same, or too little") from error

    def _boxes(self) -> tuple[np.ndarray, np.ndarray]:
        """Matrices of the unknowns at the left and at the right of each box, (boxes, number, number)."""
        size, count = int(self._first[-1]), self.residual.shape[1]
        mean, slope = np.zeros((2, len(self.residual), size, size))
        for name, values in self._slopes.items():
            for j, order in enumerate(self._orders):
                if len(name) < order:
                    mean[:, :count, self._first[j] + len(name)] += values[:, :, j]
                elif len(name) == order:
                    slope[:, :count, self._first[j] + order - 1] += values[:, :, j]
        row = count
        for first, order in zip(self._first, self._orders, strict=False):
            for k in range(order - 1):  # the derivative of one is the next
                slope[:, row, first + k], mean[:, row, first + k + 1] = -1, 1
                row += 1
        return mean / 2 - slope / self._step, mean / 2 + slope / self._step

    def _derivative(self, k: int, means: np.ndarray, differences: np.ndarray) -> Tensor:
        """Of all unknowns in the middle of the boxes; 0 where the equations have none of that order."""
        columns = [
            means[:, first + k] if k < order else differences[:, first + order - 1] * (k == order)
            for first, order in zip(self._first, self._orders, strict=False)
        ]
        return torch.from_numpy(np.stack(columns, axis=1))

    def _conditions(self) -> Iterator[tuple[np.ndarray, float]]:
        """Of each condition its row, (places x number,), and what is off."""
        problem, name, (low, high) = self.problem, self._name, self.problem.domain[self._name]
        for one in problem.conditions:
            yield from self._rows_of(one)
        if problem.initial is not None:
            start = lambda u: u.value - problem.initial_values(u.points[name])  # noqa: E731
            yield from self._rows_of(Condition("initial value", {name: low}, start))
        if problem.boundary is not None and name in problem.space:
            edge = lambda u: u.value - problem.boundary_values(u.points[name])  # noqa: E731
            for end in (low, high):
                yield from self._rows_of(Condition("boundary", {name: end}, edge))

    def _rows_of(self, condition: Condition) -> Iterator[tuple[np.ndarray, float]]:
        start = self.problem.domain[self._name][0]
        place = 0 if math.isclose(condition.where[self._name], start) else len(self.points) - 1
        names = _asked(self.problem, condition)
        with torch.no_grad():
            u = self.problem.derivatives(self._u, self.points[place : place + 1], names)
        off, slope, _ = slopes(condition.violation, u, names)
        for c in range(off.shape[1]):
            entries = np.zeros((len(self.points), self._first[-1]))
            entries[place] = self._in_first_order({name: one[0, c].numpy() for name, one in slope.items()}, condition)
            yield entries.ravel(), off[0, c].item()

    def _in_first_order(self, slope: Mapping[str, np.ndarray], condition: Condition) -> np.ndarray:
        found = np.zeros(self._first[-1])
        for name, values in slope.items():
            for j, order in enumerate(self._orders):
                if len(name) < order:
                    found[self._first[j] + len(name)] = values[j]
                elif values[j]:
                    raise np.linalg.LinAlgError(f"condition {condition.name!r} asks for u_{name}, as the equation does")
        return found
