"""Run folders as the report sees them: runs, and in each run one series per variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evolvent._core.errors import ConfigError
from evolvent.experiments.recipe import Recipe
from evolvent.experiments.record import Evaluation, Record, Result, cell_folders, read_recipe, read_record


@dataclass(frozen=True)
class Run:
    """One run folder: a single cell or a grid of cells."""

    folder: Path
    recipe: Recipe | None
    records: list[Record]
    planned: list[tuple[str, int]]  # (variant, seed) of a grid, in the recipe's order

    @property
    def name(self) -> str:
        return self.recipe.name if self.recipe else self.records[0].cell.recipe

    @property
    def title(self) -> str:
        return self.recipe.title if self.recipe else self.name

    @property
    def identity(self) -> str:
        return self.folder.name

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys([v for v, _ in self.planned] + [r.cell.variant for r in self.records]))


@dataclass(frozen=True)
class Series:
    """One variant of one run over its seeds; what has a column and a colour of its own."""

    label: str
    index: int  # chooses the colour
    run: Run
    variant: str
    records: list[Record]  # by seed
    not_started: list[int]  # seeds of the grid that have no folder yet

    @property
    def results(self) -> list[Result]:
        return [record.result for record in self.records if record.result]

    @property
    def evaluations(self) -> list[Evaluation]:
        return [record.evaluation for record in self.records if record.evaluation]

    @property
    def cells(self) -> int:
        return len(self.records) + len(self.not_started)

    @property
    def unfinished(self) -> list[str]:
        """The cells without a result, each in a few words."""
        begun = [f"seed {r.cell.seed}: {_progress(r)}" for r in self.records if r.result is None]
        return begun + [f"seed {seed}: not started" for seed in self.not_started]

    @property
    def is_segmentation(self) -> bool:
        return any(record.cell.task.name == "segmentation" for record in self.records)

    def class_name(self, index: int) -> str:
        names = self.results[0].classes if self.results else []
        return names[index] if 0 <= index < len(names) else str(index)


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read every folder once."""
    distinct = list({Path(folder).resolve(): Path(folder) for folder in folders}.values())
    if not distinct:
        raise ConfigError("a report needs at least one run folder, got none. Runs lie below runs/<recipe>/<id>.")
    return [read_run(folder) for folder in distinct]


def read_run(folder: Path) -> Run:
    """Read one run folder; a cell inside a grid's folder is read with the grid's recipe."""
    records = [read_record(path) for path in cell_folders(folder)]
    resolved = folder.resolve()
    inside_grid = resolved.parent.name == "cells"
    recipe = read_recipe(folder) or (read_recipe(resolved.parent.parent) if inside_grid else None)
    is_grid = (folder / "cells").is_dir()
    planned = [(cell.variant, cell.seed) for cell in recipe.cells()] if recipe and is_grid else []
    return Run(resolved, recipe, records, planned)


def list_series(runs: Sequence[Run]) -> list[Series]:
    """All variants of all runs, under labels that tell them apart."""
    pairs = [(run, variant) for run in runs for variant in run.variants]
    named = zip(_labels(pairs), pairs, strict=True)
    return [_series(label, index, run, variant) for index, (label, (run, variant)) in enumerate(named)]


def _series(label: str, index: int, run: Run, variant: str) -> Series:
    records = sorted((r for r in run.records if r.cell.variant == variant), key=lambda r: r.cell.seed)
    seeds = {record.cell.seed for record in records}
    not_started = [seed for name, seed in run.planned if name == variant and seed not in seeds]
    return Series(label, index, run, variant, records, not_started)


def _labels(pairs: Sequence[tuple[Run, str]]) -> list[str]:
    """The shortest naming scheme under which all labels differ."""
    schemes: list[Callable[[Run, str], str]] = [
        lambda run, variant: variant,
        lambda run, variant: f"{run.name} · {variant}",
        lambda run, variant: f"{run.name} {run.identity} · {variant}",
    ]
    for scheme in schemes:
        labels = [scheme(run, variant) for run, variant in pairs]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{run.folder} · {variant}" for run, variant in pairs]


def _progress(record: Record) -> str:
    epochs = max((len(column) for column in record.metrics.values()), default=0)
    return f"unfinished, {epochs} of {record.cell.training.epochs} epochs"
