"""Run folders as the report sees them: runs, and in each run one series per variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from evolvent._core.errors import ConfigError
from evolvent.experiments.departures import other_data
from evolvent.experiments.recipe import PublishedFigure, Recipe
from evolvent.experiments.record import Record, Result, cell_folders, read_recipe, read_record
from evolvent.report.numbers import count
from evolvent.tasks.findings import Figure


@dataclass(frozen=True)
class Run:
    """One run folder, read: a single cell or a grid of cells."""

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

    @cached_property
    def published(self) -> list[PublishedFigure]:
        """Figures to compare with: the recipe's, unless they are of other data."""
        return self.recipe.published if self.recipe and not other_data(self.recipe) else []

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
    def kinds(self) -> list[Figure]:
        """What was measured; the first is the score. Empty while no cell has finished."""
        return self.results[0].kinds if self.results else []

    @property
    def watched(self) -> tuple[Figure, ...]:
        """What training measures, finished or not."""
        return tuple(self.kinds) or (self.records[0].cell.kind.figures if self.records else ())

    @property
    def cells(self) -> int:
        return len(self.records) + len(self.not_started)

    @property
    def unfinished(self) -> list[str]:
        """A short description of each cell without a result."""
        begun = [f"seed {r.cell.seed}: {_progress(r)}" for r in self.records if r.result is None]
        return begun + [f"seed {seed}: not started" for seed in self.not_started]


def read_runs(given: Sequence[Run | Path]) -> list[Run]:
    """Read every folder once; runs that were read before stay as they are."""
    distinct = {_resolved(run): run for run in given}
    if not distinct:
        raise ConfigError("a report needs at least one run folder, got none. Runs lie below runs/<recipe>/<id>.")
    return [run if isinstance(run, Run) else read_run(run) for run in distinct.values()]


def _resolved(run: Run | Path) -> Path:
    return run.folder if isinstance(run, Run) else Path(run).resolve()


def read_run(folder: Path) -> Run:
    """Read one run folder; a cell inside a grid's folder is read with the grid's recipe."""
    folder = Path(folder)
    records = [read_record(path) for path in cell_folders(folder)]
    resolved = folder.resolve()
    inside_grid = resolved.parent.name == "cells"
    recipe = read_recipe(folder) or (read_recipe(resolved.parent.parent) if inside_grid else None)
    recipe = recipe if isinstance(recipe, Recipe) else None
    is_grid = (folder / "cells").is_dir()
    planned = [(cell.variant, cell.seed) for cell in recipe.cells()] if recipe and is_grid else []
    return Run(resolved, recipe, records, planned)


def list_series(runs: Sequence[Run]) -> list[Series]:
    """All variants of all runs, under labels that distinguish them."""
    pairs = [(run, variant) for run in runs for variant in run.variants]
    records: dict[tuple[int, str], list[Record]] = {}
    planned: dict[tuple[int, str], list[int]] = {}
    for run in runs:
        for record in sorted(run.records, key=lambda record: record.cell.seed):
            records.setdefault((id(run), record.cell.variant), []).append(record)
        for variant, seed in run.planned:
            planned.setdefault((id(run), variant), []).append(seed)
    found = []
    for index, (label, (run, variant)) in enumerate(zip(_labels(pairs), pairs, strict=True)):
        own = records.get((id(run), variant), [])
        begun = {record.cell.seed for record in own}
        not_started = [seed for seed in planned.get((id(run), variant), []) if seed not in begun]
        found.append(Series(label, index, run, variant, own, not_started))
    return found


def renumbered(all_series: Sequence[Series]) -> list[Series]:
    """The series with colours of their own, counted from the first."""
    return [replace(series, index=index) for index, series in enumerate(all_series)]


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
    """How far an unfinished training got, in the measure of its length."""
    training = record.cell.training
    epochs = max((len(column) for column in record.metrics.values()), default=0)
    if training.epochs is not None:
        return f"unfinished, {epochs} of {training.epochs} epochs"
    steps = max(record.metrics.get("step", []), default=0)
    return f"unfinished, {count(steps)} of {count(training.steps)} steps" if training.steps else "unfinished"
