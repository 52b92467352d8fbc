"""Multigrid reduction in time: the states of all steps are solved for together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeAlias

import torch
from torch import Tensor

from evolvent._core.state import square

Parts: TypeAlias = tuple[Tensor, ...]  # a state
Apply: TypeAlias = Callable[[int, int, Parts], Parts]  # level, step of the level, state at its start
Forcing: TypeAlias = Sequence[Parts | None]  # of each step of a level


class LongStep(NamedTuple):
    """A step of some level: from fine step ``first`` over ``stride`` fine steps."""

    first: int
    stride: int


@dataclass(frozen=True)
class Levels:
    """The steps of this process on all levels.

    Attributes:
        steps: of each level, in the order of the solve; the steps of a group make up one step of the next level.
        groups: of each level but the coarsest, the number of steps in each group.

    >>> levels = Levels.over(range(5), coarsening=2, count=2)
    >>> levels.steps[1][-1], levels.coarse_points(0)
    (LongStep(first=4, stride=1), [0, 2, 4, 5])
    """

    steps: list[list[LongStep]]
    groups: list[list[int]]

    @classmethod
    def over(cls, fine: range, coarsening: int, count: int) -> Self:
        """So many levels over some fine steps; the last step of a level may be shorter."""
        steps, groups = [[LongStep(j, 1) for j in fine]], []
        for _ in range(count - 1):
            cut = [steps[-1][k : k + coarsening] for k in range(0, len(steps[-1]), coarsening)]
            groups.append([len(g) for g in cut])
            steps.append([LongStep(g[0].first, sum(s.stride for s in g)) for g in cut])
        return cls(steps, groups)

    @property
    def points(self) -> int:
        """Of the finest level, both ends included."""
        return len(self.steps[0]) + 1

    def coarse_points(self, level: int) -> list[int]:
        """The points of a level that are points of the next, too."""
        return list(itertools.accumulate(self.groups[level], initial=0))

    def reversed(self) -> Levels:
        """For a solve that runs from the last step to the first."""
        return Levels([s[::-1] for s in self.steps], [g[::-1] for g in self.groups])


class ProcessNeighbours(Protocol):
    """The processes that own the steps before and after those of this one; there may be none."""

    @property
    def at_start(self) -> bool:
        """Whether no process comes before this one."""
        ...

    def send(self, last: Parts) -> None:
        """Hand the state at the end of this process on."""
        ...

    def receive(self, first: Parts) -> Parts:
        """What the process before has sent; ``first`` itself if there is none."""
        ...

    def shift(self, last: Parts, first: Parts) -> Parts:
        """Send and receive, all processes at once."""
        ...

    def norm(self, squares: Sequence[Tensor]) -> float:
        """Root of the sum over all processes: the same number on each, so that they end together."""
        ...


class Multigrid:
    r"""V-cycles with FCF relaxation for :math:`u_{k+1} - \Phi_k(u_k) = g_k`, all :math:`k` at once.

    The coarse levels solve for the states at their points, not for corrections (full approximation scheme). Günther
    et al. 2020, algorithm 1.

    Args:
        levels: the steps of this process.
        neighbours: the other processes.
        apply: :math:`\Phi` of every level.
    """

    def __init__(self, levels: Levels, neighbours: ProcessNeighbours, apply: Apply) -> None:
        self.levels = levels
        self.neighbours = neighbours
        self.apply = apply

    def solve(
        self, start: Parts, guess: Sequence[Parts], tolerance: float, limit: int
    ) -> tuple[list[Parts], list[float]]:
        """The states at all points, and of each cycle the residual before its coarse correction.

        Args:
            start: the first state of all; residuals are relative to its norm.
            guess: of the states at all points.
            tolerance: residual at which the solve ends.
            limit: of cycles.
        """
        u, residuals = list(guess), []
        if self.neighbours.at_start:
            u[0] = start
        g: Forcing = [None] * (len(u) - 1)
        scale = max(self.neighbours.norm([square(start)]), torch.finfo(start[0].dtype).tiny)
        self._relax_fine(0, u, g)
        while len(residuals) < limit:
            residuals.append(self._cycle(0, u, g) / scale)
            if residuals[-1] <= tolerance or not math.isfinite(residuals[-1]):
                break
        return u, residuals

    def _cycle(self, level: int, u: list[Parts], g: Forcing) -> float:
        """Improve ``u``, whose fine points are consistent.

        Returns:
            on the finest level, the norm of the residual before the coarse correction.
        """
        self._relax_coarse(level, u, g)
        self._relax_fine(level, u, g)
        places = self.levels.coarse_points(level)
        v, tau, squares = [u[k] for k in places], [], [torch.zeros_like(square(u[0]))]
        for m, end in enumerate(places[1:]):
            arrived = self._advance(level, end - 1, u, g)
            squares.append(square(_minus(arrived, u[end])))
            tau.append(_minus(arrived, self.apply(level + 1, m, v[m])))
        residual = self.neighbours.norm(squares) if level == 0 else math.nan
        if level + 1 == len(self.levels.groups):
            self._sweep(level + 1, v, tau)
        else:
            self._relax_fine(level + 1, v, tau)
            self._cycle(level + 1, v, tau)
        for k, value in zip(places, v, strict=True):
            u[k] = value
        self._relax_fine(level, u, g)
        return residual

    def _relax_fine(self, level: int, u: list[Parts], g: Forcing) -> None:
        """F: from every coarse point up to the next."""
        for begin, end in itertools.pairwise(self.levels.coarse_points(level)):
            for k in range(begin, end - 1):
                u[k + 1] = self._advance(level, k, u, g)

    def _relax_coarse(self, level: int, u: list[Parts], g: Forcing) -> None:
        """C: every coarse point from the fine point before it."""
        ends = self.levels.coarse_points(level)[1:]
        for end, value in [(end, self._advance(level, end - 1, u, g)) for end in ends]:
            u[end] = value
        u[0] = self.neighbours.shift(u[-1], u[0])

    def _sweep(self, level: int, u: list[Parts], g: Forcing) -> None:
        """The coarsest level, process after process."""
        u[0] = self.neighbours.receive(u[0])
        for k in range(len(u) - 1):
            u[k + 1] = self._advance(level, k, u, g)
        self.neighbours.send(u[-1])

    def _advance(self, level: int, k: int, u: Sequence[Parts], g: Forcing) -> Parts:
        made, forcing = self.apply(level, k, u[k]), g[k]
        return made if forcing is None else tuple(a + b for a, b in zip(made, forcing, strict=True))


def cycles_until_exact(steps: int, coarsening: int) -> int:
    """After so many every solve is exact, whatever the coarse step is: each cycle makes two more intervals so."""
    return -(-steps // coarsening) // 2 + 1


def _minus(u: Parts, v: Parts) -> Parts:
    return tuple(a - b for a, b in zip(u, v, strict=True))
