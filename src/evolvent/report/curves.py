"""Curves: what training measured over its epochs, and the curves of findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

import numpy as np

from evolvent.experiments.record import Record
from evolvent.report.lines import MANY_SEEDS, Bundle, Frame, Line, drawable, line_panel, values_table
from evolvent.report.markup import legend, section, text
from evolvent.report.runs import Series
from evolvent.report.subjects import Found, Group, Subject, groups, left_out, pictured, seeds_read
from evolvent.tasks.findings import Curve, Figure

_PARTS = {"train": "Training", "val": "Validation", "test": "Test"}
_SERIES = 24  # lines of such a plot at most
_LOGARITHMIC = 20  # largest over smallest value from which an axis is logarithmic


def training_section(all_series: Sequence[Series]) -> str:
    """A row of panels for each figure: training, validation and test; then the learning rate.

    Variants that are only measured, once and without a learning rate, are left out.
    """
    all_series = [series for series in all_series if any(map(_is_trained, series.records))]
    rows = []
    for figure in _figures(all_series):
        named = {f"{part}_{figure.name}": f"{name} {figure.title}" for part, name in _PARTS.items()}
        rows.append([_training_panel(all_series, column, title, figure) for column, title in named.items()])
    rows.append([_training_panel(all_series, "lr", "Learning rate", Figure("lr", "learning rate"))])
    html = "".join(f'<div class="panels">{"".join(row)}</div>' for row in rows if any(row))
    many = any(len(series.records) > MANY_SEEDS for series in all_series)
    spread = "Bands hold the seeds from the 10th to the 90th percentile" if many else "Thin lines are single seeds"
    return section("training", "Training", legend(all_series) + html if html else "", f"{spread}, bold lines medians.")


def _is_trained(record: Record) -> bool:
    return "lr" in record.metrics or record.metrics.get("epoch") != [1.0]


def _figures(all_series: Sequence[Series]) -> list[Figure]:
    """What was measured while training; the score is not the first here, since the objective is what is trained."""
    found = {figure.name: figure for series in all_series for figure in series.watched}
    measured = {column.partition("_")[2] for series in all_series for r in series.records[:1] for column in r.metrics}
    loss = Figure("loss", "loss")
    figures = {"loss": loss, **found} if "loss" in measured and "loss" not in found else found
    return [figure for figure in figures.values() if figure.shown]


def _training_panel(all_series: Sequence[Series], column: str, title: str, figure: Figure) -> str:
    bundles = metric_bundles(all_series, column)
    if not bundles:
        return ""
    log = figure.unit != "share" and _ratio(bundles) > _LOGARITHMIC
    frame = Frame(title, "epoch", y_unit=figure.unit, log_y=log, height=1.7 if column == "lr" else 2.7)
    return line_panel(bundles, frame, f"training-{escape(column)}")


def metric_bundles(all_series: Sequence[Series], column: str) -> list[Bundle]:
    """The lines of every series that measured ``column``."""
    found = []
    for series in all_series:
        seeds = [line for line in (_metric_line(record, column) for record in series.records) if line[0].size]
        if seeds:
            found.append(Bundle(series.label, series.index, seeds))
    return found


def _metric_line(record: Record, column: str) -> Line:
    values = record.metrics.get(column, [])
    epochs = record.metrics.get("epoch") or list(range(1, len(values) + 1))
    return drawable(epochs[: len(values)], values)


def _ratio(bundles: Sequence[Bundle]) -> float:
    """Largest over smallest value; 0 when a logarithm is impossible."""
    values = np.concatenate([line[1] for bundle in bundles for line in bundle.seeds])
    return float(values.max() / values.min()) if values.min() > 0 else 0.0


def curves_section(subjects: Sequence[Subject]) -> str:
    """Curves of one series with all subjects in one plot; of several series with a plot for each subject."""
    found = groups(subjects, "curves")
    together = [group for group in found if _single(group)]
    html = _together(together) if together else ""
    for k, group in enumerate(group for group in found if not _single(group)):
        html += _apart(group, f"curves-{k}")
    several = any(len(f.items) > 1 for group in found for f in group.found)
    lead = "Lines are medians over seeds; dots, thin lines or bands show the spread." if several else ""
    return section("curves", "Curves", html, (lead + seeds_read(subjects)).strip())


def _single(group: Group) -> bool:
    return all(len(curve.series) == 1 for found in group.found for curve in found.items)


def _together(all_groups: Sequence[Group]) -> str:
    panels, tables = "", ""
    for k, group in enumerate(all_groups):
        frame = _frame(group)
        bundles = [_bundle(found.label, found.index, found, None, frame) for found in group.found]
        panels += line_panel(bundles, frame, f"curve-{k}")
        tables += values_table(bundles, frame)
    shown = {found.label: found for group in all_groups for found in group.found}
    head = legend(list(shown.values())) if len(shown) > 1 else ""
    return f'{head}<div class="panels plots">{panels}</div>{tables}'


def _apart(group: Group, name: str) -> str:
    """One plot for each subject; the colours are those of the series in it."""
    panels = ""
    for k, found in enumerate(pictured(group)):
        frame = _frame(group)
        if len(group.found) > 1:
            frame = replace(frame, title=f"{group.title}, {found.label}")
        names = list(dict.fromkeys(line for curve in found.items for line in curve.series))[:_SERIES]
        bundles = [_bundle(line, index, found, line, frame) for index, line in enumerate(names)]
        panels += line_panel(bundles, frame, f"{name}-{k}", legend(bundles))
    note = left_out(group)
    return f'<div class="panels plots">{panels}</div>' + (f"<p><small>{text(note.strip())}</small></p>" if note else "")


def _frame(group: Group) -> Frame:
    curve: Curve = group.found[0].items[0]
    return Frame(curve.title, curve.x_label, curve.y_label, curve.x_unit, curve.y_unit, curve.log_x, curve.log_y,
                 dots=True, width=5.2, height=3.2)  # fmt: skip


def _bundle(label: str, index: int, found: Found, line: str | None, frame: Frame) -> Bundle:
    """One series over seeds: that of the name, or the only one."""
    chosen = [next(iter(c.series.values())) if line is None else c.series.get(line, ((), ())) for c in found.items]
    lines = [drawable(x, y, frame) for x, y in chosen]
    return Bundle(label, index, [one for one in lines if one[0].size])
