"""The equation of small changes of a solution of one coordinate: errors of ordinary differential equations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent.analysis.solutions.differences import blocks, difference_matrix
from evolvent.analysis.solutions.pointwise import slopes
from evolvent.equations.problems import Condition, Problem
from evolvent.equations.problems.needed import Needed

_HIGHEST = 4  # order of the derivatives that stencils of seven points give well

Function = Callable[[Tensor], Tensor]


def why_not_ordinary(problem: Problem) -> str:
    """Why small changes of the solution of an ordinary differential equation cannot be followed; empty if they can."""
    if len(problem.domain) != 1 or problem.region is not None or problem.eigenvalue is not None:
        return "that needs one coordinate, and values that are given"
    [(name, ends)] = problem.domain.items()
    for one in problem.conditions:
        probe = Needed([name], len(problem.unknowns), len(problem.space))
        one.violation(probe)
        if odd := [asked for asked in probe.asked if set(asked) != {name}]:
            return f"condition {one.name!r} asks for {odd[0]}"
        if one.where.get(name) not in ends:
            return f"condition {one.name!r} does not lie at an end"
    odd = [asked for asked in problem.derivatives_needed if set(asked) != {name} or len(asked) > _HIGHEST]
    return f"u_{odd[0]} is not discretised" if odd else ""


class LinearisedOrdinary:
    r"""Small changes e of a solution u of one coordinate.

    .. math:: \sum_k \frac{\partial R}{\partial u^{(k)}} e^{(k)} = -R[u]

    With what is missing of the conditions at both ends, e is to first order the error of u. All derivatives are finite
    differences of seven points, and all places are solved for at once; near an end as many equations give way as there
    are conditions.

    Args:
        problem: with one coordinate; see :func:`why_not_ordinary`.
        u: its solution, (N, 1) to (N, unknowns).
        places: of the grid.

    Attributes:
        points: of the grid, (places, 1).
        values: u there, (places, unknowns).
    """

    def __init__(self, problem: Problem, u: Function, places: int = 2001) -> None:
        [self._name] = problem.coordinates
        self.problem, self._u, self.unknowns = problem, u, len(problem.unknowns)
        self.points = problem.grid(places)
        self._periodic = "periodic" in problem.symmetry.get(self._name, "none")
        self._spacing = (self.points[1] - self.points[0]).item()
        with torch.no_grad():
            self.values = u(self.points).double().numpy()
            at = problem.derivatives(u, self.points)
        found = slopes(problem.residual, at, problem.derivatives_needed)
        self._residual, self._slopes = found[0].numpy(), {name: one.numpy() for name, one in found[1].items()}

    def error(self) -> np.ndarray:
        """The error of u to first order, (places, unknowns), such that u + e solves the problem.

        Raises:
            numpy.linalg.LinAlgError: if the problem does not determine it.
        """
        from scipy.sparse import csr_array, diags_array, eye_array, kron
        from scipy.sparse.linalg import splu

        size = len(self.points) * self.unknowns
        if self._residual.size != size:
            raise np.linalg.LinAlgError(f"it has {self._residual.shape[1]} equations for {self.unknowns} unknowns")
        matrix = csr_array((size, size))
        for name, slope in self._slopes.items():
            matrix = matrix + blocks(slope) @ kron(self._difference(len(name)), eye_array(self.unknowns))
        known, kept, rows = -self._residual.flatten(), np.ones(size), []
        for row, entries, off in self._given():
            known[row], kept[row] = -off, 0.0
            rows.append((row, entries))
        matrix = diags_array(kept) @ matrix + _rows_of(rows, size)
        try:
            with np.errstate(all="ignore"):
                return splu(matrix.tocsc()).solve(known).reshape(-1, self.unknowns)
        except RuntimeError as error:
            raise np.linalg.LinAlgError("its matrix is singular: conditions say the same, or too little") from error

    def _difference(self, order: int) -> Any:
        from scipy.sparse import eye_array

        if order == 0:
            return eye_array(len(self.points), format="csr")
        return difference_matrix(len(self.points), self._spacing, order, self._periodic)

    def _given(self) -> Iterator[tuple[int, np.ndarray, float]]:
        """Of each condition: the row that it takes, its entries there and its violation."""
        if self._periodic:
            return
        conditions = list(self._conditions())
        rows = [row for condition in conditions for row in self._rows(condition)]
        at_start = sum(self._place(condition) == 0 for condition in conditions)
        numbers = self._giving_way(2 * at_start >= len(conditions))
        if len(rows) != len(numbers):
            raise np.linalg.LinAlgError(f"it has {len(rows)} conditions where {len(numbers)} are needed")
        yield from ((number, *row) for number, row in zip(numbers, rows, strict=True))

    def _conditions(self) -> Iterator[Condition]:
        problem, ends = self.problem, self.problem.domain[self._name]
        yield from problem.conditions
        if problem.initial is not None:
            yield Condition("initial value", {self._name: ends[0]}, lambda u: u.value - self._at_start(u))
        if problem.boundary is not None and self._name in problem.space:
            for end in ends:
                yield Condition(
                    "boundary", {self._name: end}, lambda u: u.value - problem.boundary_values(u.points[self._name])
                )

    def _at_start(self, u: Any) -> Tensor:
        return self.problem.initial_values(u.points[self._name])

    def _rows(self, condition: Condition) -> Iterator[tuple[np.ndarray, float]]:
        """Entries and violation of each column of a condition."""
        place = self._place(condition)
        probe = Needed([self._name], self.unknowns)
        condition.violation(probe)
        names = sorted(probe.asked)
        with torch.no_grad():
            u = self.problem.derivatives(self._u, self.points[place : place + 1], names)
        off, slope, _ = slopes(condition.violation, u, names)
        for c in range(off.shape[1]):
            entries = np.zeros((len(self.points), self.unknowns))
            for name, values in slope.items():
                entries += self._difference(len(name))[[place]].toarray().T * values[0, c].numpy()
            yield entries.flatten(), off[0, c].item()

    def _place(self, condition: Condition) -> int:
        """The place of the grid where a condition holds."""
        start = self.problem.domain[self._name][0]
        return 0 if math.isclose(condition.where[self._name], start) else len(self.points) - 1

    def _giving_way(self, more_at_start: bool) -> list[int]:
        """Rows of equations that conditions take: as many as its order of each, half of them at each end.

        Differences of seven points have more solutions than the equation has, and these fade away from one end or the
        other. So as many stencils as that are one-sided at each end, wherever the conditions hold.
        """
        found, last = [], len(self.points) - 1
        for k in range(self.unknowns):
            order = max((len(name) for name, slope in self._slopes.items() if slope[:, k].any()), default=0)
            at_start = (order + more_at_start) // 2
            places = [*range(at_start), *range(last, last - (order - at_start), -1)]
            found += [place * self.unknowns + k for place in places]
        return found


def _rows_of(rows: list[tuple[int, np.ndarray]], size: int) -> Any:
    """A sparse matrix with a few rows."""
    from scipy.sparse import csr_array

    places = [entries.nonzero()[0] for _, entries in rows]
    values = np.concatenate([np.empty(0), *(entries[at] for (_, entries), at in zip(rows, places, strict=True))])
    numbers = np.repeat([row for row, _ in rows], [len(at) for at in places]).astype(int)
    return csr_array((values, (numbers, np.concatenate([np.empty(0, int), *places]))), shape=(size, size))
