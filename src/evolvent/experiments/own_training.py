"""One call that trains a network or a recipe on data of your own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from evolvent._core.checks import check_path, described, told
from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent._core.notebook import html_table
from evolvent._core.plain import plain
from evolvent._core.slugs import slug
from evolvent.data import ImageData, PointData
from evolvent.data.own.archive import as_archive
from evolvent.estimators.progress import ProgressLine
from evolvent.experiments.catalogue import complete_recipe, recipe_names, recipe_values, set_value
from evolvent.experiments.grid import run_folder, run_grid
from evolvent.experiments.kept_archive import Archive
from evolvent.experiments.observer import Observer, TrainingProgress
from evolvent.experiments.recipe import Cell, Recipe
from evolvent.experiments.record import Result
from evolvent.networks import list_models
from evolvent.networks._registry import ModelSpec
from evolvent.tasks.own_data import ARCHIVE, in_memory, refuse_two_origins
from evolvent.tasks.prediction import ImagePredictor, PointPredictor, load_predictor

_LARGEST_BATCH, _LEAST_STEPS = 50, 10  # rows of a step, and steps of an epoch where there are few rows
_DEFAULTS = {
    "optimizer": {"name": "adam", "lr": 0.005},
    "schedule": {"name": "cosine", "warmup": 1},
    "training": {"epochs": 10, "clip_norm": 1.0},
}


@dataclass(frozen=True)
class TrainedRun:
    """A finished run: where it lies, and the result of each of its trainings."""

    folder: Path
    results: dict[str, Result]

    @property
    def figures(self) -> dict[str, float | None]:
        """The figures on the test rows, of a run with one training."""
        if len(self.results) != 1:
            raise ConfigError(f"{self.folder} has {len(self.results)} trainings; look at results, one for each.")
        return next(iter(self.results.values())).figures

    def _repr_html_(self) -> str:
        kinds = {kind.name: kind.title for one in self.results.values() for kind in one.kinds if kind.shown}
        rows = [[label, *(one.figures.get(name) for name in kinds), one.seconds] for label, one in self.results.items()]
        return html_table(["training", *kinds.values(), "seconds"], rows, str(self.folder))

    def predictor(self) -> ImagePredictor | PointPredictor:
        """The trained network, ready to be asked about files and arrays; of a run with one training."""
        return load_predictor(self.folder)


def train(
    what: str | nn.Module,
    data: ImageData | PointData | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    seed: int | None = None,
    resume: bool = False,
    observer: Observer | None = None,
) -> TrainedRun:
    """Train a network, or all that a recipe describes, on your own data.

    Args:
        what: name of a registered network, a network made by :func:`~evolvent.networks.create_model` (its name and
            options count, its weights do not), the name of a recipe, or a recipe's YAML file.
        data: made by one of ``evolvent.data.from_folder``, ``from_arrays``, ``from_dataset``, ``from_npz``,
            ``from_csv`` and ``load``; without, the recipe's own. Data that lie in no file are written as an archive
            beside the run, so that it can be evaluated later.
        settings: changes of the recipe by dotted keys, such as ``{"training.epochs": 5}``.
        out: the run folder; ``runs/<recipe>/<id>`` unless given.
        seed: run with this seed alone.
        resume: continue the run that the folder holds.
        observer: is told of the progress; by default a bar is drawn on a terminal.

    Raises:
        ConfigError: if settings, data and network do not fit; before anything is written.
    """
    _check_settings(settings)
    if data is not None and not hasattr(data, "section"):
        raise ConfigError(f"data are made by ev.data.from_folder, from_arrays and the like, got {described(data)}.")
    refuse_two_origins({**_named_by(data), **(settings or {})})
    values = _values(what, data)
    folder = None if out is None else check_path(out, "out")
    archive = None
    if data is not None and not data.section:
        archive = _archive(data, folder)
        data = archive.data
    for key, value in (data.section if data is not None else {}).items():
        values = set_value(values, f"data.{key}", value)
    for key, value in (settings or {}).items():
        values = set_value(values, key, value)
    recipe = complete_recipe(_plain(values), f"recipe {values['name']!r}", seed)
    if not isinstance(recipe, Recipe):
        raise ConfigError(f"{recipe.name} is a study, which makes its own data. Run it with `evolvent run`.")
    place = run_folder(recipe, folder)
    kept = in_memory(archive.path, archive.data) if archive else nullcontext()
    with kept, ProgressLine(recipe.name) as line:
        results = run_grid(recipe, place, resume=resume, observer=observer or _LineObserver(line), archive=archive)
    return TrainedRun(place, results)


def _check_settings(settings: object) -> None:
    if settings is None or (isinstance(settings, Mapping) and all(isinstance(key, str) for key in settings)):
        return
    raise ConfigError(f'settings are changes by dotted keys, such as {{"training.epochs": 5}}, got {told(settings)}.')


def _values(what: str | nn.Module, data: ImageData | PointData | None) -> dict[str, Any]:
    """What a recipe would say."""
    if isinstance(what, str) and (what in recipe_names() or Path(what).suffix in (".yaml", ".yml")):
        return recipe_values(what)
    if isinstance(what, str):
        if what not in list_models():
            raise UnknownNameError("network or recipe", what, [*list_models(), *recipe_names()])
        what_spec = ModelSpec(what, {})
    else:
        what_spec = getattr(what, "spec", None)
        if not isinstance(what_spec, ModelSpec):
            raise ConfigError(
                "ev.train takes networks made by ev.create_model, which can be saved and built again. Register your "
                "own with register_family of evolvent.networks.building."
            )
    if data is None:
        raise ConfigError(f"say what {what_spec.name} is trained on: give data, or the name of a recipe.")
    task = "points" if isinstance(data, PointData) else "segmentation" if data.train.has_masks else "classification"
    rows = len(data.train[1]) if isinstance(data, PointData) else len(data.train)
    return {
        "name": f"{what_spec.name} on {data.name}",
        "title": f"{what_spec.name} on {data.name}",
        "question": "How well is it learned?",
        "model": {"name": what_spec.name, "options": dict(what_spec.options)},
        "task": {"name": task},
        "data": {"batch_size": min(_LARGEST_BATCH, max(1, rows // _LEAST_STEPS))},
        **_DEFAULTS,
    }


def _named_by(data: ImageData | PointData | None) -> dict[str, Any]:
    """What the data say of their origin, as settings."""
    if data is None:
        return {}
    return {f"data.{key}": value for key, value in (data.section or {"npz": data.name}).items()}


def _archive(data: ImageData | PointData, folder: Path | None) -> Archive:
    """Where data that lie in no file are to be kept."""
    name = f"{slug(data.name)}-{data.fingerprint}.npz"
    path = (Path("runs") / "data" / name if folder is None else folder / ARCHIVE).absolute()
    return Archive(path, as_archive(path, data))


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """What a recipe would say as its file keeps it: tuples and arrays are lists."""
    try:
        return plain(values, finite=False)
    except TypeError as error:
        raise ConfigError(
            f"settings and options are numbers, words, lists and mappings: {str(error).rstrip('.')}."
        ) from None


class _LineObserver(Observer):
    def __init__(self, line: ProgressLine) -> None:
        self._line = line

    def cell_warns(self, cell: Cell, text: str) -> None:
        warnings.warn(f"{cell.label}: {text}", stacklevel=2)

    def cell_progresses(self, cell: Cell, progress: TrainingProgress) -> None:
        self._line.stage(f"{cell.label}, epoch {progress.epoch}")(progress.share_done)
