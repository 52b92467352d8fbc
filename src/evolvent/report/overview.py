"""Head of the report: question, answer, papers and the summary table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from evolvent.networks import PAPERS
from evolvent.report.markup import key, section, table, text
from evolvent.report.numbers import NONE, count, decimal, duration, memory, percent, points, short
from evolvent.report.runs import Run, Series
from evolvent.report.summary import SHARES, Comparison, Statistic, SummaryRow, answer
from evolvent.report.theme import series_colour

Cell = Callable[[SummaryRow], str]


def page_title(runs: Sequence[Run]) -> str:
    """What the whole page is called."""
    titles = list(dict.fromkeys(run.title for run in runs))
    if len(titles) == 1:
        return titles[0] if len(runs) == 1 else f"{titles[0]}: {len(runs)} runs compared"
    return "Comparison: " + " / ".join(titles)


def header(runs: Sequence[Run], rows: Sequence[SummaryRow]) -> str:
    """Title, questions, the answer in one sentence, and the papers."""
    recipes = [run.recipe for run in runs if run.recipe]
    questions = dict.fromkeys(recipe.question for recipe in recipes)
    papers = dict.fromkeys(paper for recipe in recipes for paper in recipe.papers)
    origin = " · ".join(dict.fromkeys(f"{run.name} {run.identity}" for run in runs))
    parts = [f'<p class="origin">{text(origin)}</p>', f"<h1>{text(page_title(runs))}</h1>"]
    parts += [f'<p class="question">{text(question)}</p>' for question in questions]
    parts.append(f'<p class="answer">{text(answer(rows))}</p>')
    if papers:
        items = "".join(f"<li>{text(_reference(paper))}</li>" for paper in papers)
        parts.append(f'<div class="papers"><span>Papers</span><ul>{items}</ul></div>')
    return "<header>\n" + "\n".join(parts) + "\n</header>\n"


def summary_section(all_series: Sequence[Series], rows: Sequence[SummaryRow]) -> str:
    """The summary table: a column per variant, published figures beside the measured ones."""
    head = ["Figure", *(f"{key(series)}{text(series.label)}" for series in all_series)]
    lines = [[text(name), *(text(cell(row)) for row in rows)] for name, cell in _figures(rows)]
    dots = _dots(all_series, rows)
    lines = lines[:3] + ([dots] if dots else []) + lines[3:]
    lines += _published(rows)
    if any(row.unfinished for row in rows):
        lines.append(["Unfinished", *(_list(row.unfinished) for row in rows)])
    body = table("Summary of all variants", head, lines, "summary") + _foreign_figures(all_series)
    what = "mIoU and accuracy of pixels" if any(row.miou for row in rows) else "Accuracy"
    lead = f"{what} on the test images over seeds; standard deviation of the sample (n − 1). "
    return section("summary", "Summary", body, lead + "Multiply-adds are those of one image, forward.")


def _shares(rows: Sequence[SummaryRow]) -> list[tuple[str, Cell]]:
    """Median, mean and deviation of what counts most; of pixels there are two such figures."""
    accuracy: list[tuple[str, Cell]] = [
        ("Accuracy, median", lambda row: percent(_of(row.accuracy, "median"), 2)),
        ("Accuracy, mean", lambda row: percent(_of(row.accuracy, "mean"), 2)),
        ("Standard deviation", lambda row: percent(_of(row.accuracy, "std"), 2)),
    ]
    if not any(row.miou for row in rows):
        return accuracy
    miou: list[tuple[str, Cell]] = [
        ("mIoU, median", lambda row: percent(_of(row.miou, "median"), 2)),
        ("mIoU, mean", lambda row: percent(_of(row.miou, "mean"), 2)),
        ("mIoU, standard deviation", lambda row: percent(_of(row.miou, "std"), 2)),
    ]
    what = "Pixel accuracy" if all(row.miou for row in rows if row.accuracy) else "Accuracy"
    names = (f"{what}, median", f"{what}, mean", f"{what}, standard deviation")
    return miou + [(name, cell) for name, (_, cell) in zip(names, accuracy, strict=True)]


def _figures(rows: Sequence[SummaryRow]) -> list[tuple[str, Cell]]:
    figures: list[tuple[str, Cell]] = [
        *_shares(rows),
        ("Seeds finished (n)", lambda row: f"{row.n}" if row.n == row.cells else f"{row.n} of {row.cells}"),
        ("Top-5 accuracy, median", lambda row: percent(_of(row.top5, "median"), 2)),
        ("Loss, median", lambda row: decimal(_of(row.loss, "median"))),
        ("Parameters", lambda row: count(row.cost.parameters if row.cost else None)),
        ("Multiply-adds", lambda row: short(row.cost.multiply_adds if row.cost else None)),
        ("Activation memory", lambda row: memory(row.cost.activation_bytes if row.cost else None)),
        ("Images per second", lambda row: count(_of(row.images_per_second, "median"))),
        ("Training time", lambda row: duration(_of(row.seconds, "median"))),
    ]
    has_top5 = any(row.top5 for row in rows)
    return [(name, cell) for name, cell in figures if has_top5 or not name.startswith("Top-5")]


def _of(found: Statistic | None, name: str) -> float | None:
    return getattr(found, name) if found else None


def _dots(all_series: Sequence[Series], rows: Sequence[SummaryRow]) -> list[str]:
    """A table row that shows every seed as a dot on one common axis, the median as a bar."""
    values = [v for row in rows if row.score for v in row.score.values if math.isfinite(v)]
    if len(values) < 2 or max(values) == min(values):
        return []
    low, high = min(values), max(values)
    cells = [_strip(series, row.score, low, high) for series, row in zip(all_series, rows, strict=True)]
    return [f"Each seed<br><small>{text(percent(low, 2))} to {text(percent(high, 2))}</small>", *cells]


def _strip(series: Series, found: Statistic | None, low: float, high: float) -> str:
    if found is None or not all(map(math.isfinite, found.values)):
        return NONE
    place = [8 + 104 * (value - low) / (high - low) for value in (*found.values, found.median)]
    circles = "".join(f'<circle cx="{x:.1f}" cy="11" r="4.5"/>' for x in place[:-1])
    label = text("each seed: " + ", ".join(percent(v, 2) for v in found.values))
    return (
        f'<svg class="dots" role="img" aria-label="{label}" viewBox="0 0 120 22" '
        f'style="--c:{series_colour(series.index)}"><path class="axis" d="M3 11H117"/>'
        f'<path class="median" d="M{place[-1]:.1f} 1V21"/>{circles}</svg>'
    )


def _published(rows: Sequence[SummaryRow]) -> list[list[str]]:
    metrics = dict.fromkeys(comparison.metric for row in rows for comparison in row.published)
    return [
        [f"Published {text({'miou': 'mIoU'}.get(metric, metric))}", *(_beside(row, metric) for row in rows)]
        for metric in metrics
    ]


def _beside(row: SummaryRow, metric: str) -> str:
    found = [comparison for comparison in row.published if comparison.metric == metric]
    return "<br>".join(_one_published(comparison) for comparison in found) or NONE


def _one_published(comparison: Comparison) -> str:
    share = comparison.metric in SHARES
    value = percent(comparison.published, 2) if share else _plain(comparison.published)
    ours = _distance(comparison.difference, share)
    return f'{text(value)}<br><small>{text(ours)}</small><br><small class="source">{text(comparison.source)}</small>'


def _distance(difference: float | None, share: bool) -> str:
    if difference is None or not math.isfinite(difference):
        return "no measured figure"
    size = points(abs(difference)) if share else _plain(abs(difference))
    return f"measured {size} {'above' if difference > 0 else 'below'}" if difference else "measured the same"


def _plain(value: float) -> str:
    return count(value) if value == int(value) else decimal(value)


def _foreign_figures(all_series: Sequence[Series]) -> str:
    """Published figures of variants that no run here has."""
    items: list[str] = []
    for run in {series.run.folder: series.run for series in all_series}.values():
        others = [f for f in (run.recipe.published if run.recipe else []) if f.variant not in run.variants]
        items += [f"{f.variant}, {f.metric}: {f.value:g} ({f.source})" for f in others]
    return f"<p>Published for variants that are not in this run:</p>{_list(items)}" if items else ""


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{text(item)}</li>" for item in items) + "</ul>" if items else NONE


def _reference(paper: str) -> str:
    """A paper in words; a recipe of somebody's own may name one that is not in our table."""
    return PAPERS.get(paper).reference() if paper in PAPERS else paper
