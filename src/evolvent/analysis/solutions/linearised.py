"""The equation of small changes of a solution, on a grid: errors from residuals, sensitivities to coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent.analysis.solutions.differences import difference_matrix
from evolvent.analysis.solutions.pointwise import slopes
from evolvent.equations.problems import Condition, Problem
from evolvent.equations.problems.needed import Needed
from evolvent.tasks.pde.faces import off_boundary

_IMPLICIT = 0.55  # weight of the new time; 1/2 would be the trapezoidal rule, more damps what the grid cannot hold
_CHUNK = 8192  # points whose derivatives are computed at once

Function = Callable[[Tensor], Tensor]


def why_not(problem: Problem) -> str:
    """Why small changes of a problem's solution cannot be followed here; empty if they can."""
    if len(problem.domain) != 2 or problem.time not in problem.domain or problem.initial is None:
        return "that needs one coordinate in space, time, and an initial value"
    if problem.region is not None:
        return "that needs an interval in space that does not change"
    [space] = problem.space
    odd = [name for name in problem.derivatives_needed if name != problem.time and set(name) != {space}]
    if odd:
        return f"u_{odd[0]} is not a derivative in time of first order, nor one in space"
    for one in problem.conditions:
        if "function" in _probed(problem, one.violation)[0]:
            return f"condition {one.name!r} is not local"
    order = max((len(name) for name in problem.derivatives_needed if name != problem.time), default=0)
    if order > 4 or "periodic" in problem.symmetry.get(space, "none"):
        return "" if order <= 4 else f"derivatives of order {order} are not discretised"
    faces = sum(_probed(problem, one.violation)[1] for one in _at_ends(problem))
    wanted = order * len(problem.unknowns)
    return "" if faces == wanted else f"it has {faces} conditions at its ends where {wanted} are needed"


def _at_ends(problem: Problem) -> list[Condition]:
    """Conditions at the ends of the coordinate in space; values on the boundary are one at each."""
    [space] = problem.space
    found = [one for one in problem.conditions if set(one.where) == {space}]
    ends = problem.domain[space] if problem.boundary is not None else ()
    return found + [Condition("boundary", {space: end}, lambda u: off_boundary(problem, u)) for end in ends]


def _probed(problem: Problem, residual: Callable[..., Tensor]) -> tuple[set[str], int]:
    """Names of the derivatives that a residual asks for, and its columns."""
    probe = Needed(problem.coordinates, len(problem.unknowns), len(problem.space))
    columns = residual(probe).shape[1]
    return probe.asked, columns


class LinearisedProblem:
    r"""Small changes e of a solution u: :math:`\sum_\alpha \frac{\partial R}{\partial u_\alpha} \partial^\alpha e = f`.

    With :math:`f = -R[u]`, the residual that is left, and at the start what is missing of the initial value, e is to
    first order the error of u (its defect is corrected); with :math:`f = -\partial R / \partial c` it is the
    sensitivity :math:`\partial u / \partial c` to a coefficient. Space is discretised by finite differences of seven
    points, time by a rule between the trapezoidal and the implicit one.

    Args:
        problem: with one coordinate in space; see :func:`why_not`.
        u: its solution, (N, 2) to (N, unknowns).
        places, times: of the grid.
        coefficients: those of the equation whose sensitivities are asked for.

    Attributes:
        points: of the grid, (places, times, 2).
        values: u there, (places, times, unknowns).
        residual: of u, (places, times, equations).
    """

    def __init__(
        self, problem: Problem, u: Function, places: int = 512, times: int = 161, coefficients: tuple[str, ...] = ()
    ) -> None:
        self.problem, self._u, self._coefficients = problem, u, coefficients
        [self.space] = problem.space
        self._first = problem.coordinates[0] == self.space  # whether points have x before t
        self.periodic = "periodic" in problem.symmetry.get(self.space, "none")
        self.unknowns = len(problem.unknowns)
        grid = problem.grid(*((places, times) if self._first else (times, places)))
        grid = grid.view(places, times, 2) if self._first else grid.view(times, places, 2).transpose(0, 1)
        self.points = grid.contiguous()
        self.residual, self._slopes, self._by = self._linearised()
        self.values = self._evaluated(lambda p: self._u(p)).numpy()

    @property
    def spacing(self) -> float:
        low, high = self.problem.domain[self.space]
        places = self.points.shape[0]
        return (high - low) / (places if self.periodic else places - 1)

    @property
    def step(self) -> float:
        return self.problem.duration / (self.points.shape[1] - 1)

    def error(self) -> np.ndarray:
        """The error of u to first order, (places, times, unknowns), such that u + e solves the problem.

        Raises:
            numpy.linalg.LinAlgError: if the problem does not determine it.
        """
        start = self.points[:, 0]
        missing = self.problem.initial_values(start) - torch.from_numpy(self.values[:, 0])
        return self._solve(-self.residual[..., None], missing.numpy()[..., None], faces=-1.0)[..., 0]

    def sensitivities(self) -> np.ndarray:
        """Changes of u with each coefficient, (places, times, unknowns, coefficients)."""
        forces = np.concatenate([-self._by[name] for name in self._coefficients], axis=-1)
        return self._solve(forces, np.zeros((len(self.points), self.unknowns, forces.shape[-1])), faces=0.0)

    def _evaluated(self, f: Function) -> Tensor:
        flat = self.points.flatten(0, 1)
        with torch.no_grad():
            parts = torch.cat([f(flat[n : n + _CHUNK]).double() for n in range(0, len(flat), _CHUNK)])
        return parts.view(*self.points.shape[:2], -1)

    def _linearised(self) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
        problem, flat = self.problem, self.points.flatten(0, 1)
        names = problem.derivatives_needed
        kept = {name: value for name, value in problem.coefficients.items() if name not in self._coefficients}
        asked = {name: problem.coefficients[name] for name in self._coefficients}
        found: list[Any] = []
        for n in range(0, len(flat), _CHUNK):
            with torch.no_grad():
                at = problem.derivatives(self._u, flat[n : n + _CHUNK])
            found.append(slopes(lambda u, **c: problem.residual(u, **kept, **c), at, names, asked))
        shape = self.points.shape[:2]
        joined = lambda parts: torch.cat(parts).double().numpy().reshape(*shape, *parts[0].shape[1:])  # noqa: E731
        residual = joined([one[0] for one in found])
        by_name = {name: joined([one[1][name] for one in found]) for name in found[0][1]}
        by_coefficient = {name: joined([one[2][name] for one in found]) for name in asked}
        for values in (residual, *by_name.values(), *by_coefficient.values()):
            if not np.isfinite(values[:, 0]).all():
                values[:, 0] = values[:, 1]  # a coefficient such as 1 / t at the start
        return residual, by_name, by_coefficient

    def _operator(self, time: int) -> Any:
        """All but the derivative in time, as a sparse matrix over (places x unknowns)."""
        from scipy.sparse import csr_array, eye_array, kron

        places = self.points.shape[0]
        total = csr_array((places * self.unknowns,) * 2)
        for name, slope in self._slopes.items():
            if name != self.problem.time:
                matrix = self._difference(len(name))
                total = total + _blocks(slope[:, time]) @ kron(matrix, eye_array(self.unknowns), format="csr")
        return total

    def _difference(self, order: int) -> Any:
        from scipy.sparse import eye_array

        if order == 0:
            return eye_array(self.points.shape[0], format="csr")
        return difference_matrix(self.points.shape[0], self.spacing, order, self.periodic)

    def _solve(self, forces: np.ndarray, start: np.ndarray, faces: float) -> np.ndarray:
        """Step through time; ``forces`` (places, times, unknowns, cases), ``start`` (places, unknowns, cases)."""
        from scipy.sparse.linalg import splu

        size, cases = self.points.shape[0] * self.unknowns, forces.shape[-1]
        kept, e = [start], start.reshape(size, cases)
        moving = _blocks(self._slopes[self.problem.time][:, 0]) / self.step
        operator, force = self._operator(0), forces[:, 0].reshape(size, cases)
        ends = None if self.periodic else self._ends()
        for n in range(1, self.points.shape[1]):
            new_moving = _blocks(self._slopes[self.problem.time][:, n]) / self.step
            new_operator, new_force = self._operator(n), forces[:, n].reshape(size, cases)
            both = _IMPLICIT * new_moving + (1 - _IMPLICIT) * moving
            known = both @ e - (1 - _IMPLICIT) * (operator @ e) + _IMPLICIT * new_force + (1 - _IMPLICIT) * force
            matrix = both + _IMPLICIT * new_operator
            if ends is not None:
                matrix, known = _replaced(matrix, known, ends, n, faces)
            try:
                with np.errstate(all="ignore"):
                    e = splu(matrix.tocsc()).solve(known)
            except RuntimeError as error:
                raise np.linalg.LinAlgError("its matrix is singular: conditions at an end say the same") from error
            kept.append(e.reshape(-1, self.unknowns, cases))
            moving, operator, force = new_moving, new_operator, new_force
        return np.stack(kept, axis=1)

    def _ends(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Of each condition at an end: the row it replaces, its row of the matrix and its violation at all times."""
        from scipy.sparse import kron

        found, used, places = [], {0: 0, 1: 0}, self.points.shape[0]
        low = self.problem.domain[self.space][0]
        for condition in _at_ends(self.problem):
            upper = int(not math.isclose(condition.where[self.space], low))
            at = self.points[-1 if upper else 0]
            probe = Needed(self.problem.coordinates, self.unknowns)
            condition.violation(probe)
            names = sorted(name for name in probe.asked if self.problem.time not in name)
            with torch.no_grad():
                u = self.problem.derivatives(self._u, at, sorted(probe.asked))
            off, slope, _ = slopes(condition.violation, u, names)
            rows = np.zeros((off.shape[1], len(at), places * self.unknowns))
            for name, values in slope.items():
                picked = self._difference(len(name))[[places - 1 if upper else 0]]
                wide = kron(picked, np.eye(self.unknowns)).toarray()  # (unknowns, places x unknowns)
                rows += np.einsum("tcm,mk->ctk", values.numpy(), wide)
            for c in range(off.shape[1]):
                row = used[upper] if not upper else places * self.unknowns - 1 - used[upper]
                used[upper] += 1
                found.append((row, rows[c], off[:, c].numpy()))
        return found


def _blocks(matrices: np.ndarray) -> Any:
    """A block-diagonal matrix of (N, equations, unknowns)."""
    from scipy.sparse import bsr_array

    count, rows, columns = matrices.shape
    places = np.arange(count)
    return bsr_array(
        (matrices, places, np.arange(count + 1)), shape=(count * rows, count * columns), blocksize=(rows, columns)
    ).tocsr()


def _replaced(matrix: Any, known: np.ndarray, ends: Any, time: int, faces: float) -> tuple[Any, np.ndarray]:
    matrix, known = matrix.tolil(), known.copy()
    for row, entries, off in ends:
        matrix[[row], :] = entries[time]
        known[row] = faces * off[time]
    return matrix, known
