"""What a finished cell leaves in its folder, and how it is read back.

A run folder holds ``config.yaml``, ``metrics.csv``, ``checkpoints/``, ``model/``, ``environment.json``, and at the end
``evaluation.npz`` and ``result.json``; the last marks the cell as finished. A grid's folder has one run folder per
cell below ``cells/``. The top folder also holds the ``recipe.yaml`` it was made from, ``summary.csv`` and
``report.html``. All files appear by write-then-rename.
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from evolvent._core.errors import ConfigError
from evolvent._core.files import atomic_path, write_json, write_text
from evolvent.experiments.recipe import Cell, Recipe, StudyRecipe


@dataclass(frozen=True)
class Cost:
    """What a network costs for one training batch."""

    parameters: int
    multiply_adds: int  # of one image, forward
    activation_bytes: int  # kept for the backward pass of one batch, by the chosen gradient strategy
    batch_size: int
    gradient: str
    device: str


@dataclass(frozen=True)
class Result:
    """Figures of a finished cell; for segmentation, accuracies are those of pixels."""

    classes: list[str]
    cost: Cost
    accuracy: float
    top5: float | None  # None with fewer than six classes
    loss: float
    per_class: list[float]
    best_epoch: int
    epochs: int
    steps: int
    seconds: float
    images_per_second: float
    miou: float | None = None  # of segmentation: mean of iou over the classes that occur
    iou: list[float | None] | None = None  # intersection over union of each class, None where it does not occur
    noise_accuracy: dict[float, float] = field(default_factory=dict)  # noise level of task.test_noise -> accuracy

    @property
    def score(self) -> str:
        """The figure that counts most."""
        return "accuracy" if self.miou is None else "miou"


@dataclass(frozen=True)
class Evaluation:
    """Arrays of a finished cell, for pictures.

    ``wrong_*`` are the misclassified test images of highest confidence; none for segmentation, where ``shown_*`` are
    some test images, evenly spread, with their masks. ``features`` holds, for each evolution of the network in order,
    one image's feature maps through time.
    """

    confusion: np.ndarray  # (classes, classes) counts: row = true class, column = predicted
    image: np.ndarray  # (C, H, W) uint8, the image whose features are followed
    image_label: int  # -1 for segmentation
    wrong_images: np.ndarray = field(default_factory=lambda: np.zeros((0, 1, 1, 1), np.uint8))  # (M, C, H, W)
    wrong_labels: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # (M,)
    wrong_predictions: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # (M,)
    wrong_confidences: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))  # (M,)
    features: list[np.ndarray] = field(default_factory=list)  # each (times, channels shown, H', W') float32
    feature_norms: list[np.ndarray] = field(default_factory=list)  # each (times,) float32
    shown_images: np.ndarray = field(default_factory=lambda: np.zeros((0, 1, 1, 1), np.uint8))  # (M, C, H, W)
    shown_labels: np.ndarray = field(default_factory=lambda: np.zeros((0, 1, 1), np.uint8))  # (M, H, W)
    shown_predictions: np.ndarray = field(default_factory=lambda: np.zeros((0, 1, 1), np.uint8))  # (M, H, W)


@dataclass(frozen=True)
class Record:
    """A run folder, read."""

    folder: Path
    cell: Cell
    metrics: dict[str, list[float]]  # column -> one value per epoch; NaN where not measured
    result: Result | None  # None while unfinished
    evaluation: Evaluation | None
    environment: dict[str, Any]


def cell_folders(folder: Path) -> list[Path]:
    """The run folders of a run: those of a grid's cells, or the folder itself."""
    cells = folder / "cells"
    found = sorted(p.parent for p in cells.glob("*/config.yaml")) if cells.is_dir() else []
    if not found and not (folder / "config.yaml").is_file():
        raise ConfigError(f"{folder} is no run folder: it has no config.yaml. Runs lie below runs/<recipe>/<id>.")
    return found or [folder]


def is_finished(folder: Path) -> bool:
    return (folder / "result.json").is_file()


def read_recipe(folder: Path) -> Recipe | None:
    """The recipe that a run folder was made from.

    Raises:
        ConfigError: if it is a study's.
    """
    if is_study(folder):
        raise ConfigError(f"{folder} holds a study, not trainings. Choose another folder.")
    values = _recipe_values(folder)
    return None if values is None else Recipe.read(values, str(folder / "recipe.yaml"))


def is_study(folder: Path) -> bool:
    """Whether a run folder was made from a study's recipe."""
    return "study" in (_recipe_values(folder) or {})


def read_study_recipe(folder: Path) -> StudyRecipe | None:
    """The recipe that a study's folder was made from; None if there is none, or it is no study's."""
    values = _recipe_values(folder)
    return StudyRecipe.read(values, str(folder / "recipe.yaml")) if values and "study" in values else None


def recipe_identity(folder: Path) -> str | None:
    """Identity of the recipe that a folder holds a run of, of either kind; None if it holds none."""
    recipe = read_study_recipe(folder) if is_study(folder) else read_recipe(folder)
    return recipe.identity if recipe else None


def _recipe_values(folder: Path) -> dict[str, Any] | None:
    path = folder / "recipe.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None


def read_record(folder: Path) -> Record:
    """Everything a run folder holds; unfinished parts are None or empty."""
    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{folder} is no run folder: it has no config.yaml. Runs lie below runs/<recipe>/<id>.")
    environment = folder / "environment.json"
    return Record(
        folder=folder,
        cell=Cell.read(yaml.safe_load(path.read_text(encoding="utf-8")), str(path)),
        metrics=read_metrics(folder / "metrics.csv"),
        result=read_result(folder / "result.json"),
        evaluation=read_evaluation(folder / "evaluation.npz"),
        environment=json.loads(environment.read_text(encoding="utf-8")) if environment.is_file() else {},
    )


def write_config(path: Path, config: Cell | Recipe | StudyRecipe) -> None:
    write_text(path, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def write_result(path: Path, result: Result) -> None:
    write_json(path, result)


def read_result(path: Path) -> Result | None:
    if not path.is_file():
        return None
    values = json.loads(path.read_text(encoding="utf-8"))
    values |= {name: _number(values[name]) for name in ("accuracy", "loss", "images_per_second")}
    values["per_class"] = [_number(value) for value in values["per_class"]]
    noise = {float(level): _number(accuracy) for level, accuracy in values.get("noise_accuracy", {}).items()}
    return Result(**values | {"cost": Cost(**values["cost"]), "noise_accuracy": noise})


def _number(value: float | None) -> float:
    """JSON has no NaN; its place is taken by null."""
    return math.nan if value is None else value


def write_metrics(path: Path, rows: list[dict[str, float]]) -> None:
    """One line per epoch; the columns are those of all rows, in order of first appearance."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def read_metrics(path: Path) -> dict[str, list[float]]:
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {key: [float(row[key] or "nan") for row in rows] for key in (rows[0] if rows else [])}


_LISTS = ("features", "feature_norms")


def write_evaluation(path: Path, evaluation: Evaluation) -> None:
    arrays = {f.name: np.asarray(getattr(evaluation, f.name)) for f in fields(evaluation) if f.name not in _LISTS}
    for name in _LISTS:
        arrays |= {f"{name}.{k}": array for k, array in enumerate(getattr(evaluation, name))}
    with atomic_path(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_evaluation(path: Path) -> Evaluation | None:
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        values: dict[str, Any] = {name: arrays[name] for name in arrays.files if "." not in name}
        values |= {name: _numbered(arrays, name) for name in _LISTS}
    values["image_label"] = int(values["image_label"])
    return Evaluation(**values)


def _numbered(arrays: Any, name: str) -> list[np.ndarray]:
    count = sum(key.startswith(f"{name}.") for key in arrays.files)
    return [arrays[f"{name}.{k}"] for k in range(count)]
