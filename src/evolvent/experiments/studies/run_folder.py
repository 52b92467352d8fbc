"""Runs a study into its folder, seed by seed, and reads it back.

The folder holds ``recipe.yaml``, ``environment.json``, and for each seed ``seeds/<seed>/`` with ``seconds.json``,
``findings.npz`` and ``findings.json``. The last is written when the seed ends and marks it as finished, so a study that
was killed goes on with the seeds that are missing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evolvent._core.errors import ConfigError
from evolvent.experiments.environment import environment
from evolvent.experiments.lock import locked, refuse_other_run
from evolvent.experiments.recipe import StudyRecipe
from evolvent.experiments.record import (
    read_findings,
    read_json,
    read_recipe,
    reading,
    write_config,
    write_findings,
    write_run_json,
)
from evolvent.experiments.studies._registry import find_study
from evolvent.tasks.findings import Findings, Tell


@dataclass(frozen=True)
class SeedResult:
    """What a study found with one seed, and in how many seconds."""

    seed: int
    seconds: float
    findings: Findings


def run_study(recipe: StudyRecipe, folder: Path, *, resume: bool = False, tell: Tell) -> list[SeedResult]:
    """Run a study with those of its seeds that the folder does not hold yet.

    Returns:
        What was found with the recipe's seeds, in its order.

    Raises:
        ConfigError: if the folder holds another run, or this one and ``resume`` is not set; before anything is written.
    """
    refuse_other_run(read_recipe(folder), recipe, folder, resume)
    with locked(folder):
        earlier = read_recipe(folder)  # as it is now: another run may have begun here and ended
        refuse_other_run(earlier, recipe, folder, resume)
        missing = [seed for seed in dict.fromkeys(recipe.seeds) if not _is_written(folder, seed)]
        if missing:
            seeds = list(dict.fromkeys([*(earlier.seeds if earlier else []), *recipe.seeds]))
            write_config(folder / "recipe.yaml", recipe.model_copy(update={"seeds": seeds}))
            found = environment(missing[0], devices=1, nodes=1)
            write_run_json(folder / "environment.json", {**found, "seeds": seeds})
        for number, seed in enumerate(missing):
            write_seed(folder, _run_seed(recipe, seed, _told_for(seed, number, missing, tell)))
    return [_read_seed(folder, seed) for seed in dict.fromkeys(recipe.seeds)]


def study_is_finished(folder: Path, seeds: Sequence[int] | None = None) -> bool:
    """Whether a folder holds a study that is finished with all of these seeds; by default those of its recipe."""
    recipe = read_recipe(folder)
    if not isinstance(recipe, StudyRecipe):
        return False
    return all(_is_written(folder, seed) for seed in (recipe.seeds if seeds is None else seeds))


def read_study(folder: Path) -> list[SeedResult]:
    """What a study has found so far, seed by seed.

    Raises:
        ConfigError: if the folder holds no study, or none of its seeds is finished.
    """
    recipe = read_recipe(folder)
    if not isinstance(recipe, StudyRecipe):
        raise ConfigError(f"{folder} is not the folder of a study: there is no recipe.yaml that names one.")
    found = [_read_seed(folder, seed) for seed in dict.fromkeys(recipe.seeds) if _is_written(folder, seed)]
    if not found:
        raise ConfigError(f"no seed of the study in {folder} is finished. Run it again with --resume.")
    return found


def write_seed(folder: Path, result: SeedResult) -> None:
    """Write what one seed gave into the folder of its study; ``findings.json`` last."""
    place = _place(folder, result.seed)
    write_run_json(place / "seconds.json", {"seconds": round(result.seconds, 3)})
    write_findings(place, result.findings)


def _run_seed(recipe: StudyRecipe, seed: int, tell: Tell) -> SeedResult:
    study = find_study(recipe.study)
    settings = study.settings.read(recipe.settings, f"settings of recipe {recipe.name!r}")
    began = time.perf_counter()
    findings = study.run(settings, seed, tell)
    return SeedResult(seed, time.perf_counter() - began, findings)


def _told_for(seed: int, number: int, seeds: Sequence[int], tell: Tell) -> Tell:
    """Progress of one seed as progress of all that are to be run."""
    prefix = f"seed {seed}: " if len(seeds) > 1 else ""
    return lambda share, text: tell((number + share) / len(seeds), prefix + text)


def _place(folder: Path, seed: int) -> Path:
    return folder / "seeds" / str(seed)


def _is_written(folder: Path, seed: int) -> bool:
    return (_place(folder, seed) / "findings.json").is_file()


def _read_seed(folder: Path, seed: int) -> SeedResult:
    place = _place(folder, seed)
    findings, time_taken = read_findings(place), read_json(place / "seconds.json")
    assert findings is not None
    with reading(place / "seconds.json"):
        return SeedResult(seed, float(time_taken["seconds"]) if time_taken else math.nan, findings)
