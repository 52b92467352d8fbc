"""Measured samples of a solution, from a file."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch

from evolvent._core.errors import DataError
from evolvent._core.files import atomic_path
from evolvent.data.collocation import Samples
from evolvent.equations.problems import Problem


def read_samples(path: Path, problem: Problem) -> Samples:
    """Points and values of u from an npz file, checked against the problem.

    A component that was not measured, such as a field that is looked for, is NaN in all samples.

    Shape: points (N, coordinates), values (N, unknowns) or, of one unknown, (N,).
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            points, values = (np.asarray(stored[name], dtype=np.float64) for name in ("points", "values"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not an npz file with arrays points and values: {error}.") from None
    return checked_samples(points, values, problem, str(path))


def checked_samples(points: np.ndarray, values: np.ndarray, problem: Problem, source: str) -> Samples:
    """Samples as tensors; refuses shapes that do not fit, numbers that are not finite, and points outside."""
    values = values[:, None] if values.ndim == 1 else values
    wanted = (len(points), len(problem.domain)), (len(points), len(problem.unknowns))
    if (points.shape, values.shape) != wanted or not len(points):
        raise DataError(
            f"{source}: samples of {problem.name!r} are points (N, {len(problem.domain)}) of "
            f"{', '.join(problem.domain)} and values (N, {len(problem.unknowns)}), got {points.shape} and "
            f"{values.shape}."
        )
    measured = values[:, ~np.isnan(values).all(0)]
    if not (np.isfinite(points).all() and np.isfinite(measured).all() and measured.size):
        raise DataError(
            f"{source}: some samples are not finite. Leave them out; a component that was not measured is NaN in all."
        )
    ends = np.array(list(problem.domain.values()))
    outside = ((points < ends[:, 0]) | (points > ends[:, 1])).any(1)
    if outside.any():
        raise DataError(
            f"{source}: {int(outside.sum())} of {len(points)} samples lie outside of the domain of {problem.name!r}. "
            "Leave them out, or state the problem on a larger domain."
        )
    return Samples(torch.from_numpy(points.copy()), torch.from_numpy(values.copy()))


def write_samples(path: Path, samples: Samples) -> None:
    """Write an npz file that :func:`read_samples` reads."""
    with atomic_path(path) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, points=samples.points.numpy(), values=samples.values.numpy())
