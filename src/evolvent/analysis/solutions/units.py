"""Units of residuals and conditions: what an error as large as the solution leaves of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from evolvent.data import CollocationPoints
from evolvent.equations.problems import MANY, Condition, Problem

_SHARES = (1e-3, -1.0)  # of the size of the solution, of errors that are tried: of first order, and the whole of it
_STARTS = (0.125, 0.375, 0.625, 0.875)  # of the time, when errors begin
_EVERY = 32  # of the points is looked at then
_ON_FACE = 1024
_NEGLIGIBLE = 1e-9  # relative to what it is compared with
_SPREAD = 3.0  # a source makes a solution so many times as large as the longest wave would be, at most
_FEW = 7  # coordinates that are all tried

Function = Callable[[Tensor], Tensor]
Quantity = Callable[[Function, Tensor], Tensor]  # of a solution, at points


class Units:
    r"""What an error as large as the solution leaves of each equation and of each condition.

    An error e of one component changes the residual R by :math:`R[u + e] - R[u]`, to first order :math:`R'[u] e`. The
    unit of each equation is the root mean square of the smaller one for an e of size 1, summed over components, times
    the size s of the solution. That is the one of the problem if it is stated. Else it is, at a time t,

    .. math:: s(t) = \max\bigl(\max_{\tau \le t} |u|,\ \min(\max |u|, g)\bigr),

    where g is the size of what makes it: values that are given, and sources. So an error counts while the solution is
    small if it will grow with it.

    - With time the error grows from nothing to the size of the solution within the whole of it. An equation without
      derivatives in time has the unit of a steady one.
    - For a steady solution it is the longest wave that vanishes on the boundary; shorter ones leave more, so that a
      residual in this unit is an error that is seldom exceeded.
    - An eigenfunction, of which any multiple is one, is compared with one of the two terms of its equation.
    - For conditions errors are waves as long as the domain, in one coordinate or all, of which that counts which
      leaves most.

    Args:
        problem: that is solved.
        u: its solution, (N, coordinates) to (N, unknowns).
        points: evenly spread in the domain.
    """

    def __init__(self, problem: Problem, u: Function, points: Tensor) -> None:
        self.problem, self._u, self._points = problem, u, points
        self._column = problem.coordinates.index(problem.time) if problem.order(problem.time) else None
        with torch.no_grad():
            values = u(points).double()
        self._mean, self._most = values.square().mean().sqrt().item(), self._largest(values)
        self._equations = self._by_equations()
        self._conditions = {id(one): self._by_condition(one) for one in problem.conditions}
        self._least, self._times, self._reached = self._course(values.abs().amax(1))

    def size(self, points: Tensor) -> Tensor:
        """Of the solution until the time of each point, (N, 1)."""
        least = torch.full((len(points), 1), self._least, dtype=torch.float64)
        if self._column is None or self.problem.size is not None:
            return least
        last = torch.searchsorted(self._times, points[:, self._column].double().contiguous(), right=True) - 1
        reached = torch.where(last < 0, 0.0, self._reached[last.clamp_min(0)])
        return least.maximum(reached[:, None])

    def residual(self, points: Tensor) -> Tensor:
        """Units of the residual at points, (N, equations)."""
        if self.problem.eigenvalue is not None:
            return _or_one(torch.tensor([[abs(self.problem.eigenvalue) * self._mean / self.problem.scale]]))
        return self._equations * self.size(points)

    def condition(self, condition: Condition, points: Tensor) -> Tensor:
        """Units of a condition at points of its face, (N, columns)."""
        return self._conditions[id(condition)] * self.size(points)

    def _largest(self, values: Tensor) -> float:
        largest = values.abs().max().item()
        if self.problem.initial is not None:
            with torch.no_grad():
                largest = max(largest, self.problem.initial_values(self._points).abs().max().item())
        return largest or 1.0

    def _course(self, sizes: Tensor) -> tuple[float, Tensor, Tensor]:
        """The least size of the solution, and at which times it reaches which."""
        given = self._given()
        least = min(self._most, given) if given > _NEGLIGIBLE * self._most else self._most
        column = self._column or 0
        times, order = self._points[:, column].double().sort()
        return self.problem.size or least, times, sizes[order].cummax(0).values

    def _given(self) -> float:
        """How large a solution what is given by the problem makes, by the linearised equation."""
        problem, none = self.problem, lambda x: 0 * self._u(x)
        with torch.no_grad():
            source = problem.residual(problem.derivatives(none, self._points))
            found = [_SPREAD * source / self._equations]
            for one in problem.conditions:
                found.append(problem.violation(one, none, on_face(problem, one.where)) / self._conditions[id(one)])
            if problem.initial is not None:
                found.append(problem.initial_values(self._points))
            if problem.boundary is not None:
                found.append(problem.boundary_values(on_boundary(problem)))
        return max(torch.where(one.isfinite(), one.abs(), 0.0).max().item() for one in found)

    def _by_equations(self) -> Tensor:
        """Units of the equations for a solution of size 1, (equations,)."""
        steady = self._by_longest_wave()
        if self._column is None:
            return _or_one(steady)
        low, _ = self.problem.domain[self.problem.time]
        starts = [low + share * self.problem.duration for share in _STARTS]
        grown = torch.stack([self._by_growth(start) for start in starts]).square().mean(0).sqrt()
        return _or_one(torch.where(grown > _NEGLIGIBLE * steady, grown, steady))

    def _by_longest_wave(self) -> Tensor:
        problem, points = self.problem, self._points
        if len(problem.space) > MANY:
            return torch.zeros(())
        if not problem.space:
            return self._by_waves(self._residual_of, points, problem.coordinates)
        with torch.no_grad():
            share = self._mean / self._most / (problem.inside(points).square().mean().sqrt().item() or 1.0)
        return self._left(self._residual_of, [lambda x: problem.inside(x) * share], points)[0]

    def _by_growth(self, start: float) -> Tensor:
        """By an error that begins at a time and would become as large as the solution within its duration."""
        points, column, duration = self._points[::_EVERY].clone(), self._column or 0, self.problem.duration
        points[:, column] = start
        growth = lambda x: torch.expm1((x[:, column : column + 1] - start) / duration)  # noqa: E731
        return self._left(self._residual_of, [growth], points)[0]

    def _by_condition(self, condition: Condition) -> Tensor:
        """Units of a condition for a solution of size 1, (columns,)."""
        problem = self.problem
        crossed = [name for name in problem.coordinates if name in condition.where or name == problem.time]
        names = problem.coordinates if len(problem.coordinates) <= _FEW else crossed
        face, violation = on_face(problem, condition.where), lambda f, x: problem.violation(condition, f, x)
        return _or_one(self._by_waves(violation, face, names))

    def _by_waves(self, quantity: Quantity, points: Tensor, names: list[str]) -> Tensor:
        """By waves of two phases, in each of some coordinates and in all of them at once."""
        phases = [self._phase([name]) for name in names] + [self._phase(self.problem.coordinates)]
        waves = [lambda x, of=of, phase=phase: of(phase(x)) for phase in phases for of in (torch.sin, torch.cos)]
        return self._left(quantity, waves, points).view(len(phases), 2, -1).square().sum(1).sqrt().amax(0)

    def _phase(self, names: list[str]) -> Function:
        """The sum of some coordinates, each from -1 to 1."""
        chosen = [(i, *ends) for i, (name, ends) in enumerate(self.problem.domain.items()) if name in names]

        def phase(x: Tensor) -> Tensor:
            parts = [(2 * x[:, i : i + 1] - low - high) / (high - low) for i, low, high in chosen]
            return torch.cat(parts, 1).sum(1, True)

        return phase

    def _left(self, quantity: Quantity, errors: Sequence[Function], points: Tensor) -> Tensor:
        """What each error leaves of a quantity, the less of a small and a large one, (errors, columns)."""
        with torch.no_grad():
            here = quantity(self._u, points)
            small, large = (
                torch.stack([self._change(quantity, error, points, here, share * self._most) for error in errors])
                for share in _SHARES
            )
        return small.fmin(large)

    def _change(self, quantity: Quantity, error: Function, points: Tensor, here: Tensor, step: float) -> Tensor:
        """What an error of a step leaves of a quantity in one component after the other, over that step, (columns,)."""
        squares = []
        for axis in torch.eye(len(self.problem.unknowns), dtype=points.dtype):
            there = quantity(lambda x, axis=axis: self._u(x) + error(x) * (axis * step), points)
            squares.append(((there - here) / step).double().square().mean(0))
        return torch.stack(squares).sum(0).sqrt()

    def _residual_of(self, f: Function, points: Tensor) -> Tensor:
        return self.problem.residual(self.problem.derivatives(f, points))


def places(problem: Problem, count: int, seed: int) -> Tensor:
    """Evenly spread points of the domain, those of its region alone."""
    if problem.region is None:
        return problem.sobol(count, seed=seed)
    return CollocationPoints(problem, count).draw(count, seed, 0)


def on_face(problem: Problem, where: Mapping[str, float]) -> Tensor:
    """Evenly spread points of a face, where some coordinates are fixed."""
    face = places(problem, _ON_FACE, seed=10_009)
    for name, value in where.items():
        face[:, problem.coordinates.index(name)] = value
    return face


def on_boundary(problem: Problem) -> Tensor:
    """Evenly spread points of the boundary of space, at any time."""
    numbers = torch.quasirandom.SobolEngine(len(problem.domain), scramble=True, seed=10_013)
    return problem.on_boundary(numbers.draw(_ON_FACE, dtype=torch.float64))


def _or_one(unit: Tensor) -> Tensor:
    return torch.where(unit > 0, unit, 1.0)
