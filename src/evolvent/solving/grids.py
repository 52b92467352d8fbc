"""Values of solutions on grids, and the files they are written to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError, shortened
from evolvent._core.files import atomic_path, write_text
from evolvent.equations.problems import Problem

_COUNTS = {1: [1025], 2: [256, 101], 3: [64, 64, 21]}
_MANY = 6  # coordinates above which a grid would have a few points along each: values are at spread points instead
_SPREAD, _NUMBERS = 2**13, 2**20  # of them, and of their coordinates in all
_POINTS = 2**16  # of a grid that is not asked for, and points evaluated at a time
_MOST = 10**7  # points of a grid

Values = Callable[[Tensor], np.ndarray]  # points (N, coordinates) to (N, unknowns)


def grid_values(
    problem: Problem, values: Values, counts: Sequence[int] = (), reference: bool = False
) -> dict[str, np.ndarray]:
    """A vector for each coordinate, and an array of their lengths for each unknown.

    Args:
        problem: whose domain it is.
        values: what to evaluate.
        counts: points along each coordinate; some ten thousand in all if left out. In more than six coordinates
            evenly spread points take the place of a grid then, and all vectors have their number.
        reference: whether to add ``reference_`` and the unknown's name, where the problem has a reference.
    """
    if _are_spread(problem, counts):
        points = problem.sobol(min(_SPREAD, _NUMBERS // len(problem.domain) + 1), seed=0)
        counts = (len(points),)
        axes = {name: points[:, i].numpy() for i, name in enumerate(problem.domain)}
    else:
        counts = counts or _COUNTS.get(len(problem.domain)) or _even_counts(problem)
        _check_counts(problem, counts)
        points = problem.grid(*counts)
        axes = {name: _axis(points[:, i], counts, i) for i, name in enumerate(problem.domain)}
    found = _named(problem, np.concatenate([values(part) for part in points.split(_POINTS)]), counts)
    if reference and problem.reference is not None:
        known = _named(problem, problem.solution(points).numpy(), counts)
        found |= {f"reference_{name}": array for name, array in known.items()}
    return {**axes, **found}


def write_grid_npz(
    path: Path, problem: Problem, values: Values, counts: Sequence[int] = (), reference: bool = False
) -> Path:
    """Write :func:`grid_values` to an npz file."""
    found = grid_values(problem, values, counts, reference)
    with atomic_path(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **found)
    return path


def write_grid_csv(
    path: Path, problem: Problem, values: Values, counts: Sequence[int] = (), reference: bool = False
) -> Path:
    """Write :func:`grid_values` to a text file, a line for each point."""
    found = grid_values(problem, values, counts, reference)
    axes = [found.pop(name) for name in problem.domain]
    axes = axes if _are_spread(problem, counts) else np.meshgrid(*axes, indexing="ij")
    columns = [*(axis.ravel() for axis in axes), *(array.ravel() for array in found.values())]
    lines = (",".join(f"{value:.10g}" for value in row) for row in np.stack(columns, axis=1).tolist())
    write_text(path, "\n".join([",".join([*problem.domain, *found]), *lines]) + "\n")
    return path


def _are_spread(problem: Problem, counts: Sequence[int]) -> bool:
    """Whether values are asked for in so many coordinates that there is no grid of use."""
    return not counts and len(problem.domain) > _MANY


def _check_counts(problem: Problem, counts: Sequence[int]) -> None:
    if len(counts) != len(problem.domain):
        raise ConfigError(
            f"a grid of {problem.name!r} has a number of points along each of {', '.join(problem.domain)}, got "
            f"{shortened(repr(tuple(counts)))}."
        )
    for name, count in zip(problem.domain, counts, strict=True):
        check_whole(1, **{f"points along {name}": count})
    if math.prod(counts) > _MOST:
        raise ConfigError(
            f"a grid of {' x '.join(map(str, counts))} points is too large: take at most {_MOST:,} points in all."
        )


def _even_counts(problem: Problem) -> list[int]:
    count = len(problem.domain)
    return [max(2, int(_POINTS ** (1 / count)))] * count


def _axis(column: Tensor, counts: Sequence[int], number: int) -> np.ndarray:
    """The distinct values of a coordinate on a grid."""
    return column.view(*counts).movedim(number, 0).reshape(counts[number], -1)[:, 0].numpy()


def _named(problem: Problem, values: np.ndarray, counts: Sequence[int]) -> dict[str, np.ndarray]:
    return {name: values[:, k].reshape(counts) for k, name in enumerate(problem.unknowns)}
