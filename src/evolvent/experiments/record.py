"""What a run leaves in its folder, and how it is read back.

The folder of a cell holds ``config.yaml``, ``metrics.csv``, ``checkpoints/``, ``model/``, ``environment.json``, and at
the end ``findings.json``, ``findings.npz`` and ``result.json``; the last marks the cell as finished. A run folder holds
the ``recipe.yaml`` that it was made from, ``summary.csv``, ``report.html``, and its cells below ``cells/``; a recipe of
one cell has everything in one folder. All files appear by write-then-rename.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from evolvent._core.errors import ConfigError
from evolvent._core.files import atomic_path, write_json, write_text
from evolvent.experiments.recipe import FORMAT, Cell, Recipe, StudyRecipe, check_format
from evolvent.tasks.findings import Figure, Findings

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Cost:
    """What a network costs; None where it was not measured."""

    parameters: int
    multiply_adds: int | None  # of one row, forward
    activation_bytes: int | None  # kept for the backward pass of one batch, by the chosen gradient strategy
    batch_size: int
    gradient: str
    device: str


@dataclass(frozen=True)
class Result:
    """A finished training in figures."""

    figures: dict[str, float | None]  # on the test rows
    kinds: list[Figure]  # what the figures are; the first is the score
    cost: Cost
    rows: str  # what a row is called, in the plural
    best_epoch: int
    epochs: int
    steps: int
    seconds: float
    rows_per_second: float | None  # in training
    samples: dict[str, list[float]] = field(default_factory=dict)  # of figures that are means over trainings
    stopped: dict[str, str] = field(default_factory=dict)  # turn -> why its optimiser could do no more

    @property
    def score(self) -> Figure:
        return self.kinds[0]


@dataclass(frozen=True)
class Record:
    """What the folder of a cell holds."""

    folder: Path
    cell: Cell
    metrics: dict[str, list[float]]  # column -> one value per epoch; NaN where not measured
    result: Result | None  # None while unfinished
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def findings(self) -> Findings | None:
        """What the task found; read on access."""
        return read_findings(self.folder)


def cell_folders(folder: Path) -> list[Path]:
    """The folders of a run's cells: the folder itself, those below ``cells/``, or both."""
    own = [folder] if (folder / "config.yaml").is_file() else []
    found = own + sorted(path.parent for path in (folder / "cells").glob("*/config.yaml"))
    if not found:
        raise ConfigError(f"{folder} is not a run folder: it has no config.yaml. Runs lie below runs/<recipe>/<id>.")
    return found


def is_finished(folder: Path) -> bool:
    return (folder / "result.json").is_file()


def read_recipe(folder: Path) -> Recipe | StudyRecipe | None:
    """The recipe that a run folder was made from; None if there is none."""
    values = _read_yaml(folder / "recipe.yaml")
    if values is None:
        return None
    kind = StudyRecipe if "study" in values else Recipe
    return kind.read(values, str(folder / "recipe.yaml"))


def is_study(folder: Path) -> bool:
    """Whether a run folder was made from a study's recipe."""
    return "study" in (_read_yaml(folder / "recipe.yaml") or {})


def read_record(folder: Path) -> Record:
    """Everything the folder of a cell holds; unfinished parts are None or empty."""
    cell = read_cell(folder)
    if cell is None:
        raise ConfigError(f"{folder} is not a run folder: it has no config.yaml. Runs lie below runs/<recipe>/<id>.")
    return Record(
        folder=folder,
        cell=cell,
        metrics=read_metrics(folder / "metrics.csv"),
        result=read_result(folder),
        environment=read_json(folder / "environment.json") or {},
    )


def read_cell(folder: Path) -> Cell | None:
    """The cell whose folder this is; None if it is not the folder of a cell."""
    values = _read_yaml(folder / "config.yaml")
    return None if values is None else Cell.read(values, str(folder / "config.yaml"))


def _read_yaml(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} is not a mapping of keys to values.")
    check_format(values, str(path))
    return values


def read_json(path: Path) -> dict[str, Any] | None:
    """What a JSON file of a run folder holds, without its format number; None if there is no such file.

    Raises:
        ConfigError: if the file is damaged, or was not written by this version.
    """
    if not path.is_file():
        return None
    advice = f"Delete {path.parent} and add --resume to make it again."
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}. {advice}") from None
    if not isinstance(values, dict) or "format" not in values:
        raise ConfigError(f"{path} has no format number: another program or version wrote it. {advice}")
    check_format(values, str(path))
    del values["format"]
    return values


def write_config(path: Path, config: Cell | Recipe | StudyRecipe) -> None:
    values = config.model_dump(mode="json")
    write_text(path, yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def write_result(folder: Path, result: Result) -> None:
    write_json(folder / "result.json", {"format": FORMAT, **asdict(result)})


def read_result(folder: Path) -> Result | None:
    values = read_json(folder / "result.json")
    if values is None:
        return None
    kinds = [Figure(**kind) for kind in values["kinds"]]
    return Result(**values | {"kinds": kinds, "cost": Cost(**values["cost"])})


def write_findings(folder: Path, findings: Findings) -> None:
    """``findings.json`` for what people read, and ``findings.npz`` for the arrays that it names."""
    tree, arrays = findings.pack()
    with atomic_path(folder / "findings.npz") as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    write_json(folder / "findings.json", {"format": FORMAT, **tree})


def read_findings(folder: Path) -> Findings | None:
    tree = read_json(folder / "findings.json")
    if tree is None:
        return None
    with np.load(folder / "findings.npz", allow_pickle=False) as stored:
        return Findings.unpack(tree, {name: stored[name] for name in stored.files})


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
