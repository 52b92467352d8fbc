"""References of registered problems, computed once and kept in the cache folder."""

from __future__ import annotations

import hashlib
import inspect
import json
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from evolvent._core.files import cache_folder
from evolvent.equations.problems.problem import Problem, Reference
from evolvent.equations.problems.registry import PROBLEMS, is_given
from evolvent.equations.references import PeriodicSolution


def with_stored_reference(problem: Problem, options: Mapping[str, Any]) -> Problem:
    """The problem, whose reference is read from the cache folder if it was computed before, and else written there.

    Only solutions by Fourier coefficients are stored, which take their time; closed forms are not. The file's name
    depends on the options and on the source that states the problem, so that a changed problem is computed anew.

    Args:
        problem: made by ``create_problem(name, **options)``.
        options: of the problem.
    """
    if problem.reference is None or is_given(problem) or problem.name not in PROBLEMS:
        return problem
    path, compute = stored_path(problem.name, options), problem.reference
    return replace(problem, reference=lambda: _read(path) or _written(compute(), path))


def stored_path(name: str, options: Mapping[str, Any]) -> Path:
    """Where the reference of a registered problem is kept."""
    module = inspect.getmodule(PROBLEMS.get(name))
    try:
        source = inspect.getsource(module) if module else ""
    except OSError:  # stated in an interpreter that keeps no source
        source = ""
    said = json.dumps([name, dict(options), source], sort_keys=True, default=str)
    return cache_folder() / "references" / f"{name}-{hashlib.sha256(said.encode()).hexdigest()[:16]}.npz"


def _read(path: Path) -> Reference | None:
    """What is stored; None if it is not there or damaged."""
    try:
        return PeriodicSolution.load(path)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def _written(found: Reference, path: Path) -> Reference:
    if isinstance(found, PeriodicSolution):
        with suppress(OSError):  # a cache that cannot be written is no reason to stop
            found.save(path)
    return found
