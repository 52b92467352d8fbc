"""Figures of a run over its seeds: one row per variant. Knows no picture and no HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolvent.experiments.recipe import PublishedFigure
from evolvent.experiments.record import Cost
from evolvent.report.numbers import count, percent
from evolvent.report.runs import Series, list_series, read_run

SHARES = ("accuracy", "top5", "error", "miou")  # metrics that are shares of one


@dataclass(frozen=True)
class Statistic:
    """A figure over seeds."""

    values: tuple[float, ...]
    median: float
    mean: float
    std: float | None  # of the sample (n - 1); None for a single value

    @property
    def n(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Comparison:
    """A published figure beside the measured median; shares of one where the metric is a share."""

    metric: str
    published: float
    measured: float | None
    source: str

    @property
    def difference(self) -> float | None:
        return None if self.measured is None else self.measured - self.published


@dataclass(frozen=True)
class SummaryRow:
    """One variant of one run."""

    label: str
    recipe: str
    run: str
    variant: str
    cost: Cost | None  # None while no cell has finished
    accuracy: Statistic | None
    top5: Statistic | None
    loss: Statistic | None
    images_per_second: Statistic | None
    seconds: Statistic | None
    cells: int
    unfinished: tuple[str, ...]
    published: tuple[Comparison, ...]
    miou: Statistic | None = None  # of segmentation

    @property
    def score(self) -> Statistic | None:
        """The figure that counts most: mIoU for segmentation, else accuracy."""
        return self.miou or self.accuracy

    @property
    def n(self) -> int:
        """How many cells have finished."""
        return self.accuracy.n if self.accuracy else 0


def statistic(values: Sequence[float]) -> Statistic | None:
    """Median, mean and sample standard deviation; None of nothing.

    >>> found = statistic([1.0, 2.0, 6.0])
    >>> found.median, found.mean, round(found.std, 3), statistic([1.0]).std
    (2.0, 3.0, 2.646, None)
    """
    if not values:
        return None
    array = np.asarray(values, dtype=np.float64)
    std = float(array.std(ddof=1)) if array.size > 1 and np.isfinite(array).all() else None
    return Statistic(tuple(array.tolist()), float(np.median(array)), float(array.mean()), std)


def summary_rows(folder: Path) -> list[SummaryRow]:
    """One row per variant of a run folder, in the recipe's order."""
    return [series_row(series) for series in list_series([read_run(Path(folder))])]


def series_row(series: Series) -> SummaryRow:
    """The figures of one variant over its finished seeds."""
    results = series.results
    row = SummaryRow(
        label=series.label,
        recipe=series.run.name,
        run=series.run.identity,
        variant=series.variant,
        cost=results[0].cost if results else None,
        accuracy=statistic([r.accuracy for r in results]),
        top5=statistic([r.top5 for r in results if r.top5 is not None]),
        loss=statistic([r.loss for r in results]),
        images_per_second=statistic([r.images_per_second for r in results]),
        seconds=statistic([r.seconds for r in results]),
        cells=series.cells,
        unfinished=tuple(series.unfinished),
        published=(),
        miou=statistic([r.miou for r in results if r.miou is not None]),
    )
    figures = [f for f in (series.run.recipe.published if series.run.recipe else []) if f.variant == series.variant]
    published = tuple(compare(figure, row) for figure in figures)
    return SummaryRow(**{**vars(row), "published": published})


def compare(figure: PublishedFigure, row: SummaryRow) -> Comparison:
    """A published figure beside the row's own. A share above one was printed in percent."""
    share = figure.metric in SHARES
    published = figure.value / 100 if share and figure.value > 1 else figure.value
    return Comparison(figure.metric, published, _measured(figure.metric, row), figure.source)


def _measured(metric: str, row: SummaryRow) -> float | None:
    if metric == "error":
        return None if row.accuracy is None else 1 - row.accuracy.median
    if metric == "parameters":
        return None if row.cost is None else float(row.cost.parameters)
    known = {"accuracy": row.accuracy, "top5": row.top5, "loss": row.loss, "miou": row.miou}
    found = known.get(metric)
    return None if found is None else found.median


def summary_csv(folder: Path) -> str:
    """The summary of a run folder as the text of a CSV file; what is not known is empty."""
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in summary_rows(folder):
        values = csv_values(row)
        if writer is None:
            writer = csv.DictWriter(text, list(values), lineterminator="\n")
            writer.writeheader()
        writer.writerow(values)
    return text.getvalue()


def csv_values(row: SummaryRow) -> dict[str, object]:
    """A row as plain columns."""
    cost, published = row.cost, {c.metric: c.published for c in row.published}
    return {
        "variant": row.variant,
        "n": row.n,
        "cells": row.cells,
        "accuracy_median": row.accuracy.median if row.accuracy else None,
        "accuracy_mean": row.accuracy.mean if row.accuracy else None,
        "accuracy_std": row.accuracy.std if row.accuracy else None,
        "published_accuracy": published.get("accuracy"),
        "miou_median": row.miou.median if row.miou else None,
        "miou_mean": row.miou.mean if row.miou else None,
        "miou_std": row.miou.std if row.miou else None,
        "published_miou": published.get("miou"),
        "top5_median": row.top5.median if row.top5 else None,
        "loss_median": row.loss.median if row.loss else None,
        "parameters": cost.parameters if cost else None,
        "multiply_adds": cost.multiply_adds if cost else None,
        "activation_bytes": cost.activation_bytes if cost else None,
        "batch_size": cost.batch_size if cost else None,
        "gradient": cost.gradient if cost else None,
        "images_per_second_median": row.images_per_second.median if row.images_per_second else None,
        "seconds_median": row.seconds.median if row.seconds else None,
    }


def answer(rows: Sequence[SummaryRow]) -> str:
    """One sentence that answers an experiment's question from its figures."""
    finished = [row for row in rows if row.accuracy]
    cells, done = sum(row.cells for row in rows), sum(row.n for row in rows)
    if not finished:
        return f"No cell has finished yet (0 of {cells})."
    if len(finished) > 4:
        best = max(finished, key=lambda row: _median(row))
        worst = min(finished, key=lambda row: _median(row))
        text = f"Of {len(finished)} variants the best is {_clause(best)}, the lowest {_clause(worst)}"
        finished = [best, worst]
    else:
        seeds = {row.n for row in finished}
        text = f"Test {'mIoU' if all(row.miou for row in finished) else 'accuracy'}: " + ", ".join(
            _clause(row, k == 0 or len(seeds) > 1) for k, row in enumerate(finished)
        )
    rest = "" if done == cells else f" So far {done} of {cells} cells have finished."
    return f"{text}, {_parameters(finished)}.{rest}"


def _median(row: SummaryRow) -> float:
    return row.score.median if row.score else float("nan")


def _clause(row: SummaryRow, with_seeds: bool = True) -> str:
    seeds = "one seed" if row.n == 1 else f"median of {row.n} seeds"
    beside = f" with {percent(row.accuracy.median)} of pixels right" if row.miou and row.accuracy else ""
    return f"{row.label} {percent(_median(row))}{beside}" + (f" ({seeds})" if with_seeds else "")


def _parameters(rows: Sequence[SummaryRow]) -> str:
    counts = [count(row.cost.parameters) for row in rows if row.cost]
    if len(set(counts)) == 1:
        return f"at {counts[0]} parameters" + (" each" if len(counts) > 1 else "")
    return f"at {', '.join(counts[:-1])} and {counts[-1]} parameters"
