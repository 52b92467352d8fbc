"""How large the residuals of a problem are, in which units soever its equations are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from evolvent.equations.problems.region import MANY
from evolvent.equations.problems.shapes import joined

if TYPE_CHECKING:
    from evolvent.equations.problems.problem import Problem

USUAL = (0.05, 2000.0)
"""Magnitudes of equations beside which values and conditions, which are of order one, count as they should."""

_POINTS = 64
_LEVEL = 1.5  # times the size of the solution, around which it is changed


def magnitudes(problem: Problem) -> Tensor:
    """What changes as large as the solution, and as long as the domain, leave of each equation; (equations,).

    In units of the solution over the time, as residuals are. Changes that are tried are constant, or waves in one
    coordinate or in all of them.
    """
    points, count = problem.spread(_POINTS, seed=0), len(problem.unknowns)
    phases = list(_phases(problem))
    level = lambda x: problem.scale * (_LEVEL + torch.sin(phases[-1](x))).expand(-1, count)  # noqa: E731
    waves = [lambda x: 1 + 0 * x[:, :1]]
    waves += [lambda x, of=of, phase=phase: of(phase(x)) for phase in phases for of in (torch.sin, torch.cos)]

    def residual(f: Callable[[Tensor], Tensor]) -> Tensor:
        found = problem.equation(problem.derivatives(f, points), **problem.coefficients)
        return joined(found) * (problem.duration / problem.scale)

    with torch.no_grad():
        before = residual(level)
        changes = [
            residual(lambda x, wave=wave, axis=axis: level(x) + problem.scale * wave(x) * axis) - before
            for wave in waves
            for axis in torch.eye(count, dtype=points.dtype)
        ]
    return torch.stack(changes).square().mean(1).sqrt().amax(0)


def balance(problem: Problem) -> Tensor | None:
    """Factors of the equations, (equations,), that bring unusual magnitudes to one; None where none is unusual."""
    if len(problem.domain) > MANY or problem.eigenvalue is not None:
        return None
    found = magnitudes(problem)
    unusual = found.isfinite() & (found > 0) & ((found < USUAL[0]) | (found > USUAL[1]))
    return torch.where(unusual, 1 / found, 1.0) if unusual.any() else None


def _phases(problem: Problem) -> Iterator[Callable[[Tensor], Tensor]]:
    """Each coordinate from -1 to 1, and the sum of them."""
    ends = torch.tensor(list(problem.domain.values()), dtype=torch.float64)
    low, length = ends[:, 0], ends[:, 1] - ends[:, 0]
    for i in range(len(ends)):
        yield lambda x, i=i: 2 * (x[:, i : i + 1] - low[i]) / length[i] - 1
    yield lambda x: (2 * (x - low) / length - 1).sum(1, keepdim=True)
