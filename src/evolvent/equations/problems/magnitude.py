"""How large the residuals of a problem are, in which units soever its equations are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from evolvent.equations.problems.region import MANY
from evolvent.equations.problems.shapes import joined

if TYPE_CHECKING:
    from evolvent.equations.problems.problem import Problem

USUAL = (0.05, 1e5)
"""Magnitudes of equations beside which values and conditions, which are of order one, count as they should."""

_LEVELS = (0.5, 1.0)  # of the size of the solution; a magnitude that comes from units is the same at both
_ALIKE = 10.0
_MIDDLE, _CHANGE = 0.6, 0.2  # of a level, so that what is tried stays between a fifth of it and the whole
_POINTS = 64
_STEP = 0.6180339887498949  # of a golden section, whose multiples spread evenly


def balance(problem: Problem, coefficients: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Factors of the equations that bring unusual magnitudes to one; None where none is unusual.

    Only magnitudes that come from the units count: those of nonlinear terms depend on the solution.
    """
    if len(problem.domain) > MANY or problem.eigenvalue is not None:
        return None
    with torch.inference_mode(False), torch.no_grad():
        lower, upper = (magnitudes(problem, coefficients, level) for level in _LEVELS)
    same = (upper < _ALIKE * lower) & (lower < _ALIKE * upper)
    unusual = same & upper.isfinite() & ((upper < USUAL[0]) | (upper > USUAL[1]))
    return tuple(torch.where(unusual, 1 / upper, 1.0).tolist()) if unusual.any() else None


def magnitudes(problem: Problem, coefficients: Mapping[str, Any], level: float = 1.0) -> Tensor:
    """What changes as long as the domain leave of each equation over their size, (equations,).

    In units of the solution over the time, as residuals are. Changes that are tried are constant, or waves in one
    coordinate or in all of them, of a positive function below some share of the size of the solution; of all points
    the median counts.
    """
    points, count = _spread(problem), len(problem.unknowns)
    phases, size = list(_phases(problem)), level * problem.scale
    around = lambda x: size * (_MIDDLE + _CHANGE * torch.sin(phases[-1](x))).expand(-1, count)  # noqa: E731
    waves = [lambda x: 1 + 0 * x[:, :1]]
    waves += [lambda x, of=of, phase=phase: of(phase(x)) for phase in phases for of in (torch.sin, torch.cos)]

    def residual(f: Callable[[Tensor], Tensor]) -> Tensor:
        found = problem.equation(problem.derivatives(f, points), **coefficients)
        return joined(found) * (problem.duration / (_CHANGE * size))

    before = residual(around)
    changes = [
        residual(lambda x, wave=wave, axis=axis: around(x) + _CHANGE * size * wave(x) * axis) - before
        for wave in waves
        for axis in torch.eye(count, dtype=points.dtype)
    ]
    return torch.stack(changes).abs().median(1).values.amax(0)


def _spread(problem: Problem) -> Tensor:
    """Points inside of the domain, the same in every call and every mode of PyTorch."""
    numbers = torch.arange(1, _POINTS + 1, dtype=torch.float64)[:, None]
    roots = torch.arange(1, len(problem.domain) + 1, dtype=torch.float64)
    points = problem.placed((numbers * roots.sqrt() * _STEP) % 1)
    inside = points if problem.region is None else points[problem.contains(points)]
    return inside if len(inside) else points


def _phases(problem: Problem) -> Iterator[Callable[[Tensor], Tensor]]:
    """Each coordinate from -1 to 1, and the sum of them."""
    ends = torch.tensor(list(problem.domain.values()), dtype=torch.float64)
    low, length = ends[:, 0], ends[:, 1] - ends[:, 0]
    for i in range(len(ends)):
        yield lambda x, i=i: 2 * (x[:, i : i + 1] - low[i]) / length[i] - 1
    yield lambda x: (2 * (x - low) / length - 1).sum(1, keepdim=True)
