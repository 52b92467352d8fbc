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
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from evolvent._core.checks import check_path
from evolvent._core.errors import ConfigError, EvolventError, StorageError, shortened
from evolvent._core.files import atomic_path, sha256, write_json, write_text
from evolvent._core.plain import plain
from evolvent._core.seals import sealed, unsealed
from evolvent._core.yaml_text import parse_yaml
from evolvent.experiments.recipe import FORMAT, Cell, Recipe, StudyRecipe, check_format
from evolvent.tasks.findings import Figure, Findings

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
    metrics_sha256: str = ""  # of metrics.csv; empty where an earlier version wrote the result

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
    def data_name(self) -> str:
        """What people call the data; of the user's own, the name that was given to them."""
        stated, named = self.cell.data_name, self._data.get("name") if self.data_fingerprint else None
        return stated if not named or Path(stated).stem == named else str(named)

    @property
    def data_fingerprint(self) -> str:
        """Of the user's own data, as they were when the training began; else empty."""
        return str(self._data.get("fingerprint") or "")

    @property
    def _data(self) -> dict[str, Any]:
        found = self.environment.get("data")
        return found if isinstance(found, dict) else {}

    @property
    def findings(self) -> Findings | None:
        """What the task found; read on access."""
        return read_findings(self.folder)


def cell_folders(folder: Path) -> list[Path]:
    """The folders of a run's cells: the folder itself, those below ``cells/``, or both."""
    with reading(folder):
        own = [folder] if (folder / "config.yaml").is_file() else []
        found = own + sorted(path.parent for path in (folder / "cells").glob("*/config.yaml"))
    if not found:
        raise not_a_run(folder)
    return found


def not_a_run(folder: Path) -> ConfigError:
    beside = [path.parent.name for path in folder.parent.glob("*/config.yaml")]
    near = get_close_matches(folder.name, beside, 1)
    advice = f"Did you mean {near[0]}?" if near else "Runs lie below runs/<recipe>/<id>."
    return ConfigError(f"{folder} is not a run folder: it has no config.yaml. {advice}")


def check_still_there(folder: Path) -> None:
    """Refuse to go on writing into a cell's folder that somebody has deleted: it would be made anew in parts.

    Raises:
        StorageError: if the folder is gone.
    """
    if not (folder / "config.yaml").is_file():
        raise StorageError(
            f"{folder} was deleted or moved while it was written to. Put it back and add --resume, or start again."
        )


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


def read_record(folder: str | os.PathLike[str]) -> Record:
    """Everything the folder of a cell holds; unfinished parts are None or empty."""
    folder = check_path(folder, "read_record")
    cell = read_cell(folder)
    if cell is None:
        raise not_a_run(folder)
    result = read_result(folder)
    return Record(
        folder=folder,
        cell=cell,
        metrics=read_metrics(folder / "metrics.csv", result.metrics_sha256 if result else ""),
        result=result,
        environment=read_json(folder / "environment.json") or {},
    )


@contextmanager
def reading(path: Path, advice: str = "") -> Iterator[None]:
    """Turn whatever reading a file of a run folder may raise into one line that names the file.

    Damaged files fail in many ways, so every exception counts; the block should do nothing but read the file.
    """
    try:
        yield
    except EvolventError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:
        reason = shortened(str(error), 100).rstrip(".") or type(error).__name__
        raise ConfigError(f"{path} is damaged: {reason}. {advice}".rstrip()) from None


def read_cell(folder: Path) -> Cell | None:
    """The cell whose folder this is; None if it is not the folder of a cell."""
    values = _read_yaml(folder / "config.yaml")
    return None if values is None else Cell.read(values, str(folder / "config.yaml"))


def _read_yaml(path: Path) -> dict[str, Any] | None:
    with reading(path):
        if not path.is_file():
            return None
        values = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    if not isinstance(values, dict):
        raise ConfigError(f"{path} is not a mapping of keys to values.")
    check_format(values, str(path))
    return unsealed(values, str(path))


def read_json(path: Path) -> dict[str, Any] | None:
    """What a JSON file of a run folder holds, without its format number; None if there is no such file.

    Raises:
        ConfigError: if the file is damaged, or was not written by this version.
    """
    advice = _advice(path)
    with reading(path, advice):
        if not path.is_file():
            return None
        values = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(values, dict) or "format" not in values:
        raise ConfigError(f"{path} has no format number: another program or version wrote it. {advice}")
    check_format(values, str(path))
    values = unsealed(values, str(path))
    del values["format"]
    return values


def _advice(path: Path) -> str:
    """What to do about a damaged file: never to delete more than that, for the model lies beside it."""
    again = "add --resume to `evolvent run`, which writes it again from the last checkpoint."
    if path.stem == "findings":
        files = "findings.json and result.json" if is_finished(path.parent) else "findings.json"
        return f"Delete {files}, nothing else, and {again}"
    if path.name == "result.json":
        return f"Delete this file alone and {again}"
    return "Delete this file alone to go on without it."


def write_run_json(path: Path, values: dict[str, Any], indent: int | None = 2) -> None:
    """Write a JSON file of a run folder, with its format number and checksum."""
    write_json(path, sealed({"format": FORMAT, **plain(values)}), indent)


def write_config(path: Path, config: Cell | Recipe | StudyRecipe) -> None:
    values = sealed(config.model_dump(mode="json"))
    write_text(path, yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def write_result(folder: Path, result: Result) -> None:
    write_run_json(folder / "result.json", asdict(result))


def read_result(folder: Path) -> Result | None:
    values = read_json(folder / "result.json")
    if values is None:
        return None
    with reading(folder / "result.json"):
        kinds = [Figure(**kind) for kind in values["kinds"]]
        return Result(**values | {"kinds": kinds, "cost": Cost(**values["cost"])})


def write_findings(folder: Path, findings: Findings) -> None:
    """``findings.json`` for what people read, and ``findings.npz`` for the arrays that it names."""
    tree, arrays = findings.pack()
    with atomic_path(folder / "findings.npz") as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    write_run_json(folder / "findings.json", tree)


def read_findings(folder: Path) -> Findings | None:
    tree = read_json(folder / "findings.json")
    if tree is None:
        return None
    arrays = read_arrays(folder / "findings.npz")
    with reading(folder / "findings.json"):
        return Findings.unpack(tree, arrays)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file, read without pickle; their own checksums must fit."""
    with reading(path):
        content = path.read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except Exception:  # damaged archives fail in many ways; the words of some advise to switch numpy's safety off
        raise ConfigError(f"{path} is damaged: it is not an archive of plain arrays. {_advice(path)}") from None


def write_metrics(path: Path, rows: list[dict[str, float]]) -> None:
    """One line per epoch; the columns are those of all rows, in order of first appearance."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def metrics_digest(folder: Path) -> str:
    """The sha256 of a cell's ``metrics.csv``, by which its result knows the file; empty if there is none."""
    path = folder / "metrics.csv"
    return sha256(path) if path.is_file() else ""


def read_metrics(path: Path, digest: str = "") -> dict[str, list[float]]:
    """The columns of ``metrics.csv``; empty if there is no such file.

    Args:
        path: the file.
        digest: its sha256, if it is known.
    """
    if not path.is_file():
        return {}
    advice = "Delete it to go on without its curves."
    with reading(path, advice):
        if digest and sha256(path) != digest:
            raise ConfigError(f"{path} is damaged, or was changed by hand: its checksum differs. {advice}")
        header, *rows = _csv_rows(path)
        return {name: [_number(row[place]) for row in rows] for place, name in enumerate(header)}


def _csv_rows(path: Path) -> list[list[str]]:
    """Complete rows, all as long as the first."""
    text = path.read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(text), strict=True))
    if not rows or not text.endswith("\n"):
        raise ValueError("it ends in the middle of a line")
    if uneven := next((number for number, row in enumerate(rows, 1) if len(row) != len(rows[0])), None):
        raise ValueError(f"line {uneven} has {len(rows[uneven - 1])} fields, the first has {len(rows[0])}")
    return rows


def _number(text: str) -> float:
    return float(text) if text else math.nan
