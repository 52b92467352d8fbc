"""Runs a study into its folder, and reads it back.

The folder holds ``recipe.yaml``, ``environment.json``, ``frames.npz`` where there are animations, and ``study.json``,
which is written last and marks the study as finished.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evolvent._core.errors import ConfigError
from evolvent._core.files import atomic_path, write_json
from evolvent.experiments.environment import environment
from evolvent.experiments.lock import locked, refuse_other_run
from evolvent.experiments.recipe import StudyRecipe
from evolvent.experiments.record import recipe_identity, write_config
from evolvent.experiments.studies._registry import find_study
from evolvent.experiments.studies.result import Animation, Curve, Regions, StudyResult, Table, Tell

STUDY, FRAMES = "study.json", "frames.npz"


@dataclass(frozen=True)
class SeedResult:
    """What a study found with one seed, and in how many seconds."""

    seed: int
    seconds: float
    result: StudyResult


def run_study(recipe: StudyRecipe, folder: Path, *, resume: bool = False, tell: Tell) -> list[SeedResult]:
    """Run a study with all its seeds, unless the folder holds its results already.

    Raises:
        ConfigError: if the folder holds another run, or this one and ``resume`` is not set; before anything is written.
    """
    refuse_other_run(recipe_identity(folder), recipe.identity, folder, resume)
    with locked(folder):
        if is_finished(folder):
            return read_study(folder)
        write_config(folder / "recipe.yaml", recipe)
        circumstances = environment(recipe.seeds[0], devices=1, nodes=1) | {"seeds": recipe.seeds}
        write_json(folder / "environment.json", circumstances)
        found = [_run_seed(recipe, k, tell) for k in range(len(recipe.seeds))]
        _write_study(folder, found)
    return found


def is_finished(folder: Path) -> bool:
    return (folder / STUDY).is_file()


def read_study(folder: Path) -> list[SeedResult]:
    """What a finished study found, seed by seed."""
    if not is_finished(folder):
        raise ConfigError(f"the study in {folder} is not finished: it has no {STUDY}. Run it again with --resume.")
    found = json.loads((folder / STUDY).read_text(encoding="utf-8"))
    arrays: dict[str, np.ndarray] = {}
    if (folder / FRAMES).is_file():
        with np.load(folder / FRAMES, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    return [_from_plain(entry, arrays) for entry in found]


def _run_seed(recipe: StudyRecipe, number: int, tell: Tell) -> SeedResult:
    study, count, seed = find_study(recipe.study), len(recipe.seeds), recipe.seeds[number]
    settings = study.settings.read(recipe.settings, f"settings of recipe {recipe.name!r}")
    prefix = f"seed {seed}: " if count > 1 else ""
    began = time.perf_counter()
    result = study.run(settings, seed, lambda share, text: tell((number + share) / count, prefix + text))
    return SeedResult(seed, time.perf_counter() - began, result)


def _write_study(folder: Path, found: list[SeedResult]) -> None:
    arrays = {name: array for entry in found for name, array in _arrays(entry).items()}
    if arrays:
        with atomic_path(folder / FRAMES) as draft, draft.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    write_json(folder / STUDY, [_to_plain(entry) for entry in found], indent=1)


def _arrays(entry: SeedResult) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for k, animation in enumerate(entry.result.animations):
        name = f"{entry.seed}.{k}"
        arrays |= {f"{name}.frames": animation.frames, f"{name}.labels": animation.labels}
        if animation.regions:
            arrays |= {
                f"{name}.regions": animation.regions.classes,
                f"{name}.extent": np.array(animation.regions.extent),
            }
    return arrays


def _to_plain(entry: SeedResult) -> dict[str, Any]:
    result = entry.result
    curves = [asdict(c) | {"series": {n: {"x": x, "y": y} for n, (x, y) in c.series.items()}} for c in result.curves]
    return {
        "seed": entry.seed,
        "seconds": round(entry.seconds, 3),
        "answer": result.answer,
        "tables": result.tables,
        "curves": curves,
        "animations": [animation.title for animation in result.animations],
    }


def _from_plain(entry: dict[str, Any], arrays: dict[str, np.ndarray]) -> SeedResult:
    curves = [Curve(**c | {"series": {n: (s["x"], _numbers(s["y"])) for n, s in c["series"].items()}})
              for c in entry["curves"]]  # fmt: skip
    animations = [_animation(title, f"{entry['seed']}.{k}", arrays) for k, title in enumerate(entry["animations"])]
    result = StudyResult(entry["answer"], [Table(**table) for table in entry["tables"]], curves, animations)
    return SeedResult(entry["seed"], entry["seconds"], result)


def _numbers(values: list[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _animation(title: str, name: str, arrays: dict[str, np.ndarray]) -> Animation:
    regions = None
    if f"{name}.regions" in arrays:
        left, right, bottom, top = arrays[f"{name}.extent"].tolist()
        regions = Regions(arrays[f"{name}.regions"], (left, right, bottom, top))
    return Animation(title, arrays[f"{name}.frames"], arrays[f"{name}.labels"], regions)
