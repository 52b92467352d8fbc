"""Small changes of a solution that its network can follow: errors and sensitivities in any number of coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent.data import CollocationPoints
from evolvent.equations import Derivatives, parameter_jacobian
from evolvent.equations.problems import Condition, Problem
from evolvent.equations.problems.needed import Needed
from evolvent.tasks.pde.faces import check_sides, missing_in_time

_INSIDE, _FACE = 768, 128  # points where the equation and each condition are linearised
_MOST = 0.5  # of the number of weights, points of the equation at most, so that the network can meet them all
_SEED = 10_039
_FLOOR = 1e-9  # of singular values, relative to the largest

Function = Callable[[Tensor], Tensor]
Quantity = Callable[[Function, Tensor], Tensor]


class Changes(NamedTuple):
    """Changes of the weights: what takes the error off, (weights,), and those with coefficients, (weights, k)."""

    error: Tensor
    sensitivities: Tensor


class _Asked(NamedTuple):
    """What should be 0 at points, and how it changes with coefficients, (N or 1, components or 1, coefficients)."""

    quantity: Quantity
    points: Tensor
    slopes: Tensor


class TangentProblem:
    r"""The linearised equation among the changes that weights :math:`\theta` make, :math:`e = u_\theta\, d`.

    With :math:`R_\theta`, the Jacobian of the residual and of all conditions at points, :math:`R_\theta d = -R` is
    solved for the smallest d, whose e is the error of u to first order; :math:`R_\theta d = -\partial R / \partial c`
    gives the sensitivity :math:`\partial u / \partial c`.

    Args:
        problem: that is solved.
        network: whose weights change.
        solution: u, of a function in the network's place and points.
    """

    def __init__(self, problem: Problem, network: nn.Module, solution: Quantity) -> None:
        self.problem, self.network, self.solution = problem, network, solution

    def why_not(self) -> str:
        """Why the problem by itself does not determine small changes; empty if it does."""
        problem = self.problem
        if "function" in problem.derivatives_needed:
            return "its equation is not local"
        probe = Needed(problem.coordinates, len(problem.unknowns), len(problem.space))
        if (equations := problem.residual(probe).shape[1]) < len(problem.unknowns):
            return f"it has {equations} equations for {len(problem.unknowns)} unknowns"
        if given_too_little := missing_in_time(problem):
            return f"it has {given_too_little}"
        if problem.initial is None and problem.boundary is None and not problem.conditions:
            return "it has no conditions"
        try:
            check_sides(problem)
        except ConfigError as error:
            return str(error).partition(" for ")[0]
        return ""

    def changes(self, names: Sequence[str]) -> Changes:
        """Changes of the weights, with the error and with each of the named coefficients."""
        rows, right = [], []
        for asked in self._asked(names):
            with torch.no_grad():
                off = asked.quantity(self.network, asked.points)
            share = len(asked.points) ** -0.5
            rows.append(share * self._jacobian(asked.quantity, asked.points, off.shape[1]))
            sides = torch.cat([off[..., None], asked.slopes.expand(*off.shape, len(names))], dim=2)
            right.append(-share * sides.flatten(0, 1))
        found = torch.linalg.lstsq(torch.cat(rows), torch.cat(right), rcond=_FLOOR, driver="gelsd").solution
        return Changes(found[:, 0], found[:, 1:])

    def followed(self, changes: Tensor, points: Tensor) -> Tensor:
        """Changes of u at points with those of the weights, (N, unknowns, ...)."""
        jacobian = self._jacobian(self.solution, points, len(self.problem.unknowns))
        return (jacobian @ changes).unflatten(0, (len(points), -1))

    def _jacobian(self, quantity: Quantity, points: Tensor, components: int) -> Tensor:
        """(N x components, weights)."""

        def component(k: int) -> Quantity:
            return lambda f, x: quantity(f, x)[:, k : k + 1]

        parts = [parameter_jacobian(self.network, component(k), points) for k in range(components)]
        return torch.stack(parts, dim=1).flatten(0, 1)

    def _asked(self, names: Sequence[str]) -> Iterator[_Asked]:
        """The equation and all conditions."""
        problem, source = self.problem, CollocationPoints(self.problem, _INSIDE)
        weights = sum(p.numel() for p in self.network.parameters() if p.requires_grad)
        share = min(1.0, _MOST * weights / (_INSIDE * len(problem.unknowns)))
        inside, face = (max(1, int(share * count)) for count in (_INSIDE, _FACE))
        points = source.draw(inside, _SEED, 0)
        yield _Asked(self._residual, points, self._slopes(points, names))
        none = points.new_zeros(1, 1, len(names))
        if problem.initial is not None:
            at = source.on_face({problem.time: problem.domain[problem.time][0]}, face, _SEED)
            yield _Asked(lambda f, x: self._off(f, x, problem.initial_values(x)), at, none)
        if problem.boundary is not None:
            at = source.on_boundary(face, _SEED)
            yield _Asked(lambda f, x: self._off(f, x, problem.boundary_values(x)), at, none)
        for one in problem.conditions:
            at = source.on_face(one.where, face, _SEED)
            yield _Asked(lambda f, x, one=one: self._violation(one, f, x), at, none)

    def _off(self, f: Function, points: Tensor, values: Tensor) -> Tensor:
        return (self.solution(f, points) - values) / self.problem.scale

    def _violation(self, condition: Condition, f: Function, points: Tensor) -> Tensor:
        return self.problem.violation(condition, lambda x: self.solution(f, x), points) / self.problem.scale

    def _derivatives(self, f: Function, points: Tensor) -> Derivatives:
        return self.problem.derivatives(lambda x: self.solution(f, x), points)

    def _residual(self, f: Function, points: Tensor) -> Tensor:
        return self.problem.residual(self._derivatives(f, points))

    def _slopes(self, points: Tensor, names: Sequence[str]) -> Tensor:
        """How the residual changes with coefficients, (N, equations, coefficients)."""
        with torch.no_grad():
            u = self._derivatives(self.network, points)
        columns = [points.new_full((len(points), 1), self.problem.coefficients[name]) for name in names]
        with torch.enable_grad():  # a column for each coefficient keeps the points apart
            given = dict(zip(names, (one.requires_grad_() for one in columns), strict=True))
            found = self.problem.residual(u, **given)
            rows = [torch.autograd.grad(k.sum(), columns, retain_graph=True) for k in found.unbind(1)]
        return torch.stack([torch.cat(row, dim=1) for row in rows], dim=1)
