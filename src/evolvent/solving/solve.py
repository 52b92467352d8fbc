"""A problem, solved within a budget of time."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evolvent._core.checks import described
from evolvent._core.errors import ConfigError, NonFiniteError
from evolvent._core.slugs import slug
from evolvent.analysis.solutions import TangentProblem, check_trust, estimate_coefficients
from evolvent.analysis.solutions.trust import TOLERANCE
from evolvent.data.collocation import Samples
from evolvent.equations.problems import PROBLEMS, Problem, create_problem, given, with_stored_reference
from evolvent.equations.references import ReferenceTimeError, within
from evolvent.experiments.catalogue import with_settings
from evolvent.experiments.checkpoints import read_checkpoint
from evolvent.experiments.grid import run_grid
from evolvent.experiments.lock import refuse_other_run
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import Recipe
from evolvent.experiments.record import is_finished, read_recipe
from evolvent.solving.earlier import earlier_recipe
from evolvent.solving.folders import cells_of
from evolvent.solving.plan import METHODS, measure_pace, parse_budget
from evolvent.solving.solution import Solution
from evolvent.solving.verdicts import add_to_findings, write_estimates, write_trust
from evolvent.tasks.pde.checks import check_finite
from evolvent.tasks.pde.methods import check_suits
from evolvent.tasks.pde.samples import checked_samples, read_samples, write_samples

_REFERENCE = 0.15  # of the budget, at most, to compute a reference that is not stored
_RESERVE, _RESERVED = 5.0, 0.35  # seconds, and share of the budget, at most, for the checks at the end
_SAMPLES = "samples.npz"


def solve(
    problem: str | Problem,
    budget: str | float = "5m",
    method: str = "pinn",
    seed: int = 0,
    *,
    options: Mapping[str, Any] | None = None,
    unknown: Mapping[str, float] | None = None,
    samples: tuple[Any, Any] | None = None,
    second: bool = True,
    reference: bool = True,
    tolerance: float = TOLERANCE,
    settings: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    observer: Observer | None = None,
    began: float | None = None,
) -> Solution:
    """Solve a problem within a budget of wall-clock time, and look whether the answer can be trusted.

    The time goes into two trainings from different seeds, which are compared, and into the checks; with
    ``second=False`` into one.

    Args:
        problem: name of a registered problem, or a problem.
        budget: seconds, or a time such as ``90s``, ``5m`` or ``1h``, for everything.
        method: how; see :data:`~evolvent.solving.METHODS`.
        seed: of the weights and points.
        options: of a registered problem.
        unknown: coefficients of the equation that are looked for, each with a value to begin with; needs samples. One
            that depends on coordinates (:func:`~evolvent.equations.problems.with_field`) begins as a constant.
        samples: points (N, coordinates) and values (N, unknowns) of the solution, as they were measured.
        second: solve a second time from the next seed, to compare.
        reference: compare with the problem's reference, if it has one that is stored or soon computed.
        tolerance: relative error up to which the solution is to be trusted.
        settings: keys of the recipe to change, such as ``"model.options.width=40"``.
        out: run folder; else a temporary one, which is deleted with the solution.
        resume: continue the run in ``out`` with the budget that it began with. It must be one of the same problem,
            options, method, seed, samples and settings; settings that are left out are those of the run.
        observer: is told of the progress.
        began: ``time.perf_counter()`` from which the budget counts; now if left out.

    >>> import evolvent as ev
    >>> u = ev.solve("heat", budget="6s", second=False, settings=["training.steps=1"])
    >>> u([[0.5, 0.0]]).shape
    (1, 1)
    """
    now, total = time.perf_counter(), parse_budget(budget)
    began = now if began is None else began
    started = now - began  # a busy machine that starts slowly will also check slowly
    stated, options = _stated(problem, options), dict(options or {})
    stated = stated if reference else replace(stated, reference=None)
    stated = _with_reference_in_time(stated, _REFERENCE * total)
    folder = Path(tempfile.mkdtemp(prefix="evolvent-")) / "run" if out is None else Path(out)
    try:
        looked_for = _unknown(stated, unknown or {})
        recipe = earlier_recipe(folder, stated.name, options, method, seed, looked_for, settings) if resume else None
        if not resume and (held := read_recipe(folder)):
            refuse_other_run(held, held, folder, resume)
        measured = _stored_samples(samples, stated, folder, keep=recipe is not None)
        with given(stated, options):
            if recipe is None:
                left = total - (time.perf_counter() - began) - min(_RESERVE + 1.5 * started, _RESERVED * total)
                each = max(1.0, left / 2 if second else left)
                plan = METHODS.get(method)
                check_finite(stated)
                check_suits(stated, method, looked_for)
                pace = measure_pace(stated, each, method)
                sections = plan(stated, pace, looked_for)
                seeds = [seed, seed + 1] if second else [seed]
                recipe = _recipe(stated, sections, pace.seconds, options, measured, seeds, settings)
            _run(recipe, folder, resume, observer, stated)
        solution = conclude(folder, stated, tolerance)
    except BaseException:
        if out is None:
            shutil.rmtree(folder.parent, ignore_errors=True)
        raise
    if out is None:
        weakref.finalize(solution, shutil.rmtree, folder.parent, ignore_errors=True)
    return solution


def conclude(folder: Path, problem: Problem, tolerance: float = TOLERANCE) -> Solution:
    """The solution of a finished run, with a verdict on it that is written into the folder."""
    solution = Solution.load(folder, problem)
    if _is_judged(solution, tolerance):
        return solution
    (cell, place), *others = [(cell, path) for cell, path in cells_of(folder) if is_finished(path)]
    state = read_checkpoint(place)
    names, file = list(getattr(cell.task, "unknown", {})), getattr(cell.data, "file", None)
    if names and file:
        points, values = read_samples(Path(file), solution.problem)
        solution.estimates = estimate_coefficients(
            solution.problem, solution, names, points, values, TangentProblem(*solution.parts)
        )
        write_estimates(folder, solution.estimates)
    trust = check_trust(
        solution.problem,
        solution,
        trained_at=state["task"]["points"] if state and not getattr(cell.data, "fresh", False) else None,
        second=Solution.load(others[0][1], problem) if others else None,
        tolerance=tolerance,
        seed=cell.seed,
        estimates=solution.estimates,
    )
    add_to_findings(place, solution.problem, trust, solution.estimates)
    write_trust(folder, trust)
    solution.trust = trust
    return solution


def _is_judged(solution: Solution, tolerance: float) -> bool:
    """Whether its verdict is one by this tolerance; a problem without a name may be another than that of the run."""
    return solution.trust is not None and solution.trust.tolerance == tolerance and solution.problem.name in PROBLEMS


def _stated(problem: str | Problem, options: Mapping[str, Any] | None) -> Problem:
    if isinstance(problem, str):
        return with_stored_reference(create_problem(problem, **(options or {})), options or {})
    if not isinstance(problem, Problem):
        raise ConfigError(
            f"ev.solve takes the name of a problem, such as 'heat', or a Problem, got {described(problem)}."
        )
    if options:
        raise ConfigError(f"options are for problems that are given by name; {problem.name!r} has them already.")
    if problem.name in PROBLEMS:  # it may differ from what the name stands for, as which it would be loaded later
        return replace(problem, name=f"{problem.name} as given", title=problem.title or problem.name)
    return problem


def _unknown(problem: Problem, guesses: Mapping[str, float]) -> dict[str, float]:
    """First values of all numbers that are looked for, with those of the shapes of fields."""
    found = dict(guesses)
    for name in guesses:
        if name in problem.fields:
            found |= dict.fromkeys(problem.fields[name].shape_names, 0.0)
    return found


def _with_reference_in_time(problem: Problem, seconds: float) -> Problem:
    """The problem with its reference computed, or without one that takes too long."""
    if problem.reference is None:
        return problem
    try:
        with within(seconds):
            assert problem.solution
        return problem
    except ReferenceTimeError:
        return replace(problem, reference=None)


def _stored_samples(samples: tuple[Any, Any] | None, problem: Problem, folder: Path, keep: bool) -> Path | None:
    """The file of the samples; it is never replaced by others."""
    path = folder / _SAMPLES
    if samples is None:
        return path if path.is_file() else None
    arrays = [np.asarray(part, dtype=np.float64) for part in samples]
    found: Samples = checked_samples(arrays[0], arrays[1], problem, "samples")
    if path.is_file() or keep:
        if not path.is_file() or not _equal(read_samples(path, problem), found):
            what = "a run" if keep else f"a file {_SAMPLES}"
            raise ConfigError(f"{folder} holds {what} with other samples. Give the same ones, or choose another --out.")
    else:
        write_samples(path, found)
    return path


def _equal(one: Samples, other: Samples) -> bool:
    return all(a.shape == b.shape and a.allclose(b, equal_nan=True) for a, b in zip(one, other, strict=True))


def _recipe(
    problem: Problem,
    sections: dict[str, Any],
    seconds: float,
    options: Mapping[str, Any],
    measured: Path | None,
    seeds: list[int],
    settings: Sequence[str],
) -> Recipe:
    data = {**sections["data"], "options": dict(options)}
    if measured is not None:
        data["file"] = str(measured.resolve())
    title = problem.title or problem.name
    values = {
        "name": f"solve-{slug(problem.name)}",
        "title": title,
        "question": "What is the solution, and can it be trusted?",
        **sections,
        "data": data,
        "training": {**sections["training"], "budget": seconds},
        "seeds": seeds,
    }
    recipe = Recipe.read(with_settings(values, settings), "the plan")
    recipe.cells()
    return recipe


def _run(recipe: Recipe, folder: Path, resume: bool, observer: Observer | None, problem: Problem) -> None:
    try:
        run_grid(recipe, folder, resume=resume, observer=observer)
    except NonFiniteError as error:
        raise NonFiniteError(
            f"solving {problem.name!r} ended in numbers that are not finite, which it did not begin with. Check the "
            "equation for divisions and roots, or begin with easier coefficients (Problem.easier)."
        ) from error
