"""Head of the report: question, answer, papers and the summary table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from evolvent.experiments.departures import departure_sentence, published_sentence, question_of
from evolvent.experiments.recipe import Recipe
from evolvent.networks import PAPERS
from evolvent.report.bounds import first_few
from evolvent.report.honesty import data_names, data_warning, difference_sentence, honest_title
from evolvent.report.lines import MANY_SEEDS
from evolvent.report.markup import section, swatch, table, text
from evolvent.report.numbers import NONE, capital, count, duration, memory, short, write, write_difference
from evolvent.report.runs import Run, Series
from evolvent.report.subjects import Subject
from evolvent.report.summary import Comparison, Statistic, SummaryRow, answer, find_figure, shown_figures
from evolvent.report.theme import series_colour
from evolvent.tasks.findings import Figure, Unit

_COLUMNS = 12  # variants that have columns; more have rows
_ROWS = 60  # variants in rows at most
_LISTED = 8  # unfinished cells, or published figures of other variants, at most

Cell = Callable[[SummaryRow], str]


def page_title(runs: Sequence[Run]) -> str:
    """What the whole page is called."""
    titles = list(dict.fromkeys(map(honest_title, runs)))
    if len(titles) == 1:
        return titles[0] if len(runs) == 1 else f"{titles[0]}: {len(runs)} runs compared"
    return "Comparison: " + " / ".join(titles)


def run_header(runs: Sequence[Run], rows: Sequence[SummaryRow], subjects: Sequence[Subject]) -> str:
    """Title, questions, the answer from the figures and what the task itself answered."""
    recipes = [run.recipe for run in runs if run.recipe]
    origin = " · ".join(dict.fromkeys(f"{run.name} {run.identity}" for run in runs))
    origin += f" · data: {', '.join(dict.fromkeys(name for run in runs for name in data_names(run)))}"
    cautions = [data_warning(runs), *dict.fromkeys(said for recipe in recipes for said in _cautions(recipe))]
    found = [(subject.label, subject.findings[0].answer) for subject in subjects if subject.findings]
    same = len({said for _, said in found}) == 1
    own = [said if same else f"{label}: {said}" for label, said in found[: 1 if same else None] if said]
    questions = [question_of(recipe) for recipe in recipes]
    papers = [paper for recipe in recipes for paper in recipe.papers]
    answers = [" ".join(filter(None, [answer(rows), _differences(rows)])), *first_few(own, _LISTED)]
    return header(origin, page_title(runs), questions, answers, papers, [said for said in cautions if said])


def _cautions(recipe: Recipe) -> list[str]:
    """What was changed of a recipe, and what cannot be compared for that reason."""
    noted = [capital(line) for line in recipe.cautions]
    return [departure_sentence(recipe), published_sentence(recipe), *noted]


def _differences(rows: Sequence[SummaryRow]) -> str:
    """For each score, whether the best two differ by more than their seeds do."""
    scores = dict.fromkeys(row.score for row in rows if row.score)
    return " ".join(filter(None, (difference_sentence([row for row in rows if row.score == one]) for one in scores)))


def header(
    origin: str,
    title: str,
    questions: Sequence[str],
    answers: Sequence[str],
    papers: Sequence[str],
    cautions: Sequence[str] = (),
) -> str:
    """The top of a page."""
    parts = [f'<p class="origin">{text(origin)}</p>', f"<h1>{text(title)}</h1>"]
    parts += [f'<p class="question">{text(question)}</p>' for question in dict.fromkeys(questions)]
    parts += [f'<p class="answer">{text(sentence)}</p>' for sentence in answers]
    parts += [f'<p class="caution">{text(sentence)}</p>' for sentence in cautions]
    if papers:
        items = "".join(f"<li>{text(_reference(paper))}</li>" for paper in dict.fromkeys(papers))
        parts.append(f'<div class="papers"><span>Papers</span><ul>{items}</ul></div>')
    return "<header>\n" + "\n".join(parts) + "\n</header>\n"


def summary_section(all_series: Sequence[Series], rows: Sequence[SummaryRow], keyed: Sequence[Series]) -> str:
    """The summary table: a column per variant, or a row if they are many; published figures beside measured ones.

    Args:
        all_series: the variants.
        rows: their figures.
        keyed: those that have a colour.
    """
    lines = [(text(name), cell) for name, cell in _figures(rows)]
    names = {series.label: swatch(series) + text(series.label) for series in keyed}
    colours = {series.label: series.index for series in keyed}
    lines[1:1] = _spread(rows, colours)
    lines += _published(rows)
    if any(row.unfinished for row in rows):
        lines.append(("Unfinished", lambda row: _list(first_few(row.unfinished, _LISTED))))
    if len(rows) <= _COLUMNS:
        head = ["Figure", *(names.get(row.label, text(row.label)) for row in rows)]
        body = table("Summary of all variants", head, [[name, *map(cell, rows)] for name, cell in lines], "summary")
    else:
        shown = [[names.get(row.label, text(row.label)), *(cell(row) for _, cell in lines)] for row in rows[:_ROWS]]
        body = table("Summary of all variants", ["Variant", *(name for name, _ in lines)], shown, "summary many")
        body += _rest(rows)
    lead = "Figures on the test data, over seeds; standard deviation of the sample (n − 1). "
    lead += "Multiply-adds are those of one row of the data, forward."
    return section("summary", "Summary", body + _other_figures(all_series, rows), lead)


def _rest(rows: Sequence[SummaryRow]) -> str:
    if len(rows) <= _ROWS:
        return ""
    said = f"The first {_ROWS} of {count(len(rows))} variants; summary.csv in the run's folder has all of them."
    return f"<p><small>{text(said)}</small></p>"


def _figures(rows: Sequence[SummaryRow]) -> list[tuple[str, Cell]]:
    """Names and cells of the lines, the score first; lines without any value are left out."""
    lines: list[tuple[str, Cell]] = []
    for figure in shown_figures(rows):
        lines += [(f"{capital(figure.title)}, {name}", _of(figure, part)) for name, part in _PARTS]
    rate = next((row.rows for row in rows if row.n), "rows")
    others: list[tuple[str, Cell]] = [
        ("Parameters", lambda row: count(row.cost.parameters if row.cost else None)),
        ("Multiply-adds", lambda row: text(short(row.cost.multiply_adds if row.cost else None))),
        ("Activation memory", lambda row: text(memory(row.cost.activation_bytes if row.cost else None))),
        (f"{capital(rate)} per second", lambda row: _rate(row.rows_per_second)),
        ("Training time", lambda row: text(duration(row.seconds.median if row.seconds else None))),
    ]
    lines = [*lines[:3], ("Seeds finished (n)", _seeds), *lines[3:], *others]
    return [(name, cell) for name, cell in lines if name.startswith("Seeds") or any(cell(row) != NONE for row in rows)]


def _seeds(row: SummaryRow) -> str:
    return count(row.n) if row.n == row.cells else f"{count(row.n)} of {count(row.cells)}"


_PARTS = (("median", "median"), ("mean", "mean"), ("standard deviation", "std"))


def _of(figure: Figure, part: str) -> Cell:
    def cell(row: SummaryRow) -> str:
        found = row.figures.get(figure.name)
        return text(write(getattr(found, part), figure.unit, _digits(figure.unit))) if found else NONE

    return cell


def _digits(unit: Unit) -> int | None:
    return 2 if unit == "share" else None


def _rate(found: Statistic | None) -> str:
    return NONE if found is None else count(found.median) if found.median >= 10 else write(found.median, digits=2)


def _spread(rows: Sequence[SummaryRow], colours: dict[str, int]) -> list[tuple[str, Cell]]:
    """A line that shows every seed on one common axis, for each score."""
    lines = []
    for score in dict.fromkeys(row.score for row in rows if row.score):
        found = {row.label: row.score_statistic for row in rows if row.score == score and row.score_statistic}
        values = [v for over_seeds in found.values() for v in over_seeds.values if math.isfinite(v)]
        if len(values) >= 2 and max(values) > min(values):
            span = (min(values), max(values))
            written = " to ".join(write(value, score.unit, _digits(score.unit)) for value in span)
            name = f"Each seed<br><small>{text(written)}</small>"
            lines.append((name, _strips(found, span, score.unit, colours)))
    return lines


def _strips(found: dict[str, Statistic], span: tuple[float, float], unit: Unit, colours: dict[str, int]) -> Cell:
    return lambda row: _strip(found.get(row.label), *span, unit, colours.get(row.label))


def _strip(found: Statistic | None, low: float, high: float, unit: Unit, index: int | None) -> str:
    """A dot for each seed and a bar at the median; of many seeds the range from the 10th to the 90th percentile."""
    if found is None or not all(map(math.isfinite, found.values)):
        return NONE

    def place(value: float) -> float:
        return 8 + 104 * (value - low) / (high - low)

    if len(found.values) > MANY_SEEDS:
        ends = np.quantile(found.values, (0.1, 0.9)).tolist()
        marks = f'<path class="range" d="M{place(ends[0]):.1f} 11H{place(ends[1]):.1f}"/>'
        said = f"{len(found.values)} seeds, most from " + " to ".join(write(value, unit, 2) for value in ends)
    else:
        marks = "".join(f'<circle cx="{place(value):.1f}" cy="11" r="4.5"/>' for value in found.values)
        said = "each seed: " + ", ".join(write(value, unit, _digits(unit)) for value in found.values)
    colour = "var(--soft)" if index is None else series_colour(index)
    return (
        f'<svg class="dots" role="img" aria-label="{text(said)}" viewBox="0 0 120 22" style="--c:{colour}">'
        f'<path class="axis" d="M3 11H117"/><path class="median" d="M{place(found.median):.1f} 1V21"/>{marks}</svg>'
    )


def _published(rows: Sequence[SummaryRow]) -> list[tuple[str, Cell]]:
    figures = {comparison.figure.name: comparison.figure for row in rows for comparison in row.published}
    return [(f"Published {text(figure.title)}", _beside(name)) for name, figure in figures.items()]


def _beside(name: str) -> Cell:
    def cell(row: SummaryRow) -> str:
        found = [comparison for comparison in row.published if comparison.figure.name == name]
        return "<br>".join(map(_one_published, found)) or NONE

    return cell


def _one_published(comparison: Comparison) -> str:
    unit = comparison.figure.unit
    value, distance = write(comparison.published, unit, _digits(unit)), _distance(comparison.difference, unit)
    return (
        f'{text(value)}<br><small>{text(distance)}</small><br><small class="source">{text(comparison.source)}</small>'
    )


def _distance(difference: float | None, unit: Unit) -> str:
    if difference is None or not math.isfinite(difference):
        return "no measured figure"
    if not difference:
        return "measured the same"
    return f"measured {write_difference(difference, unit)} {'above' if difference > 0 else 'below'}"


def _other_figures(all_series: Sequence[Series], rows: Sequence[SummaryRow]) -> str:
    """Published figures of variants that are not in these runs."""
    items: list[str] = []
    for run in {series.run.folder: series.run for series in all_series}.values():
        known, own = set(run.variants), next((row for row in rows if row.run == run.identity), rows[0])
        for printed in run.published:
            if printed.variant not in known:
                figure = find_figure(printed.metric, own)
                value = write(figure.from_print(printed.value), figure.unit, _digits(figure.unit))
                items.append(f"{printed.variant}, {figure.title}: {value} ({printed.source})")
    return f"<p>Published for variants that are not in this run:</p>{_list(first_few(items, 40))}" if items else ""


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{text(item)}</li>" for item in items) + "</ul>" if items else NONE


def _reference(paper: str) -> str:
    """A paper's reference; a user's own recipe may name one that the library does not know."""
    return PAPERS.get(paper).reference() if paper in PAPERS else paper
