"""Figures of a run over its seeds: one row per variant, without pictures and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evolvent.experiments.recipe import PublishedFigure
from evolvent.experiments.record import Cost, Record, Result
from evolvent.report.numbers import count, write
from evolvent.report.runs import Run, Series, list_series
from evolvent.tasks.findings import Figure

_COST = (Figure("parameters", "parameters", "count"), Figure("multiply_adds", "multiply-adds", "count"))
_FEW = 4  # variants that the answer names one by one


@dataclass(frozen=True)
class Statistic:
    """A figure over seeds, and over the trainings of each seed where there are several."""

    values: tuple[float, ...]
    median: float
    mean: float
    std: float | None  # of the sample (n - 1); None for a single value


@dataclass(frozen=True)
class Comparison:
    """A published figure beside the measured median."""

    figure: Figure
    published: float  # in the figure's unit
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
    kinds: tuple[Figure, ...]  # the first is the score; empty while no cell has finished
    figures: dict[str, Statistic]  # by name
    cost: Cost | None  # None while no cell has finished
    rows: str  # what a row of the data is called, in the plural
    rows_per_second: Statistic | None
    seconds: Statistic | None
    n: int  # how many cells have finished
    cells: int
    unfinished: tuple[str, ...]
    published: tuple[Comparison, ...] = ()
    data: str = ""  # what people call it

    @property
    def score(self) -> Figure | None:
        """The figure by which models are chosen."""
        return self.kinds[0] if self.kinds else None

    @property
    def score_statistic(self) -> Statistic | None:
        return self.figures.get(self.score.name) if self.score else None


def statistic(values: Sequence[float | None]) -> Statistic | None:
    """Median, mean and sample standard deviation of what was measured; None if nothing was.

    >>> found = statistic([1.0, 2.0, None, 6.0])
    >>> found.median, found.mean, round(found.std, 3), statistic([1.0]).std
    (2.0, 3.0, 2.646, None)
    """
    array = np.array([value for value in values if value is not None], dtype=np.float64)
    if not array.size:
        return None
    std = float(array.std(ddof=1)) if array.size > 1 and np.isfinite(array).all() else None
    return Statistic(tuple(array.tolist()), float(np.median(array)), float(array.mean()), std)


def summary_rows(run: Run) -> list[SummaryRow]:
    """One row per variant of a run, in the recipe's order."""
    return [series_row(series) for series in list_series([run])]


def names_of_data(records: Sequence[Record]) -> list[str]:
    """What the data of trainings are called, each set once, by its last name where it had several."""
    named = {record.data_fingerprint or record.data_name: record.data_name for record in records}
    return list(dict.fromkeys(named.values()))


def series_row(series: Series) -> SummaryRow:
    """The figures of one variant over its finished seeds."""
    results = series.results
    measured = {kind.name: statistic(_values(results, kind.name)) for kind in series.kinds}
    row = SummaryRow(
        label=series.label,
        recipe=series.run.name,
        run=series.run.identity,
        variant=series.variant,
        kinds=tuple(series.kinds),
        figures={name: found for name, found in measured.items() if found},
        cost=results[0].cost if results else None,
        rows=results[0].rows if results else "rows",
        rows_per_second=statistic([r.rows_per_second for r in results]),
        seconds=statistic([r.seconds for r in results]),
        n=len(results),
        cells=series.cells,
        unfinished=tuple(series.unfinished),
        data=", ".join(names_of_data(series.records)),
    )
    printed = [figure for figure in series.run.published if figure.variant == series.variant]
    return replace(row, published=tuple(compare(figure, row) for figure in printed))


def _values(results: Sequence[Result], name: str) -> list[float | None]:
    """One value for each seed, or for each training where seeds have several."""
    return [value for result in results for value in result.samples.get(name) or [result.figures.get(name)]]


def compare(printed: PublishedFigure, row: SummaryRow) -> Comparison:
    """A published figure beside the row's own; a metric that was not measured has no measured one."""
    figure = find_figure(printed.metric, row)
    found = row.figures.get(printed.metric)
    measured = found.median if found else getattr(row.cost, printed.metric, None) if figure in _COST else None
    return Comparison(figure, figure.from_print(printed.value), measured, printed.source)


def find_figure(metric: str, row: SummaryRow) -> Figure:
    """What a published metric is; a plain number if it is neither measured nor a cost."""
    known = {figure.name: figure for figure in (*_COST, *row.kinds)}
    return known.get(metric, Figure(metric, metric, better=None))


def shown_figures(rows: Sequence[SummaryRow]) -> list[Figure]:
    """The figures that tables show: scores first, then the others in the order of the tasks."""
    scores = [row.score for row in rows if row.score]
    others = [kind for row in rows for kind in row.kinds if kind.shown]
    return list({figure.name: figure for figure in (*scores, *others)}.values())


def summary_csv(run: Run) -> str:
    """The summary of a run as the text of a CSV file; what is not known is empty."""
    rows = summary_rows(run)
    figures = _csv_figures(rows)
    values = [csv_values(row, figures) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(values[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(values)
    return text.getvalue()


def _csv_figures(rows: Sequence[SummaryRow]) -> list[Figure]:
    """Shown figures, and those that were published."""
    published = [comparison.figure for row in rows for comparison in row.published]
    return list({figure.name: figure for figure in (*shown_figures(rows), *published)}.values())


def csv_values(row: SummaryRow, figures: Sequence[Figure]) -> dict[str, object]:
    """A row as plain columns."""
    cost, published = row.cost, {c.figure.name: c.published for c in row.published}
    values: dict[str, object] = {"variant": row.variant, "n": row.n, "cells": row.cells, "data": row.data}
    for figure in figures:
        if figure not in _COST:
            found = row.figures.get(figure.name)
            values |= {f"{figure.name}_{part}": getattr(found, part, None) for part in ("median", "mean", "std")}
        values[f"published_{figure.name}"] = published.get(figure.name)
    for name in ("parameters", "multiply_adds", "activation_bytes", "batch_size", "gradient"):
        values[name] = getattr(cost, name, None)
    values["rows_per_second_median"] = row.rows_per_second.median if row.rows_per_second else None
    values["seconds_median"] = row.seconds.median if row.seconds else None
    return values


def ranked(rows: Sequence[SummaryRow]) -> list[SummaryRow]:
    """Rows of one score, the best first; the lowest first if neither direction is better. NaN is last."""
    known = [row for row in rows if row.score_statistic]
    down = bool(known and known[0].score and known[0].score.better == "higher")

    def place(row: SummaryRow) -> float:
        value = _median(row)
        return np.inf if np.isnan(value) else -value if down else value

    return sorted(known, key=place)


def answer(rows: Sequence[SummaryRow]) -> str:
    """One or a few sentences that answer an experiment's question from its figures."""
    cells, done = sum(row.cells for row in rows), sum(row.n for row in rows)
    if not done:
        return f"No cell has finished yet (0 of {count(cells)})."
    by_score: dict[str, list[SummaryRow]] = {}
    for row in rows:
        if row.score and row.score_statistic:
            by_score.setdefault(row.score.title, []).append(row)
    sentences = [_sentence(title, group) for title, group in by_score.items()]
    if not sentences:
        sentences = [f"{count(done)} of {count(cells)} cells have finished; none has a score."]
    elif done < cells:
        sentences.append(f"So far {count(done)} of {count(cells)} cells have finished.")
    return " ".join(sentences)


def _sentence(title: str, rows: Sequence[SummaryRow]) -> str:
    if len(rows) > _FEW:
        first, *_, last = ranked(rows)
        ends = ("best", "worst") if first.score and first.score.better else ("lowest", "highest")
        text = f"Test {title} of {count(len(rows))} variants: the {ends[0]} is {_clause(first)}, the {ends[1]} "
        return f"{text}{_clause(last)}{_parameters((first, last))}."
    seeds = {row.n for row in rows}
    clauses = [_clause(row, with_seeds=k == 0 or len(seeds) > 1) for k, row in enumerate(rows)]
    return f"Test {title}: {', '.join(clauses)}{_parameters(rows)}."


def _median(row: SummaryRow) -> float:
    return row.score_statistic.median if row.score_statistic else float("nan")


def _clause(row: SummaryRow, with_seeds: bool = True) -> str:
    assert row.score
    assert row.score_statistic
    number = len(row.score_statistic.values)
    seeds = "one seed" if number == 1 else f"median of {count(number)} {'seeds' if number == row.n else 'trainings'}"
    return f"{row.label} {write(_median(row), row.score.unit)}" + (f" ({seeds})" if with_seeds else "")


def _parameters(rows: Sequence[SummaryRow]) -> str:
    counts = [count(row.cost.parameters) for row in rows if row.cost]
    if len(set(counts)) == 1:
        return f", at {counts[0]} parameters" + (" each" if len(counts) > 1 else "")
    return f", at {', '.join(counts[:-1])} and {counts[-1]} parameters" if counts else ""
