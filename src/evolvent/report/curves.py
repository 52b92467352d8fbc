"""Curves over epochs: thin lines for the seeds, a bold one for their median."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evolvent.experiments.record import Record
from evolvent.report.axes import percent_axis
from evolvent.report.markup import figure, legend, section
from evolvent.report.runs import Series
from evolvent.report.theme import FAINT, INK, series_dash, series_sentinel, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOSSES = {"train_loss": "Training loss", "val_loss": "Validation loss", "test_loss": "Test loss"}
ACCURACIES = {
    "train_accuracy": "Training accuracy",
    "val_accuracy": "Validation accuracy",
    "test_accuracy": "Test accuracy",
}
MIOUS = {"val_miou": "Validation mIoU", "test_miou": "Test mIoU"}
RATE = {"lr": "Learning rate"}

Line = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Bundle:
    """One series in one panel."""

    index: int
    seeds: list[Line]
    median: Line


def curves_section(all_series: Sequence[Series]) -> str:
    """Losses in one row, shares of what is right in the next, the learning rate where there is room."""
    shares = ACCURACIES | MIOUS
    panels = {name: bundles(all_series, name) for name in (*LOSSES, *shares, *RATE)}
    losses = [_panel(panels[name], name, title) for name, title in LOSSES.items() if panels[name]]
    accuracies = [_panel(panels[name], name, title) for name, title in shares.items() if panels[name]]
    rate = [_panel(panels["lr"], "lr", RATE["lr"])] if panels["lr"] else []
    first, second = (losses + rate, accuracies) if len(losses) < 3 else (losses, accuracies + rate)
    html = "".join(f'<div class="panels">{"".join(row)}</div>' for row in (first, second) if row)
    lead = "Thin lines are single seeds, bold lines the median over seeds."
    return section("curves", "Training", legend(all_series) + html if html else "", lead)


def bundles(all_series: Sequence[Series], column: str) -> list[Bundle]:
    """The lines of every series that measured ``column``."""
    found = []
    for series in all_series:
        seeds = [line for line in (_line(record, column) for record in series.records) if line[0].size]
        if seeds:
            found.append(Bundle(series.index, seeds, median_line(seeds)))
    return found


def _line(record: Record, column: str) -> Line:
    values = np.asarray(record.metrics.get(column, []), dtype=np.float64)
    epochs = np.asarray(record.metrics.get("epoch", range(1, len(values) + 1)), dtype=np.float64)[: len(values)]
    measured = np.isfinite(values) & np.isfinite(epochs)
    return epochs[measured], values[measured]


def median_line(seeds: Sequence[Line]) -> Line:
    """Median over the seeds that were measured, epoch by epoch.

    >>> e = np.arange(2.0)
    >>> median_line([(e, e), (e, e + 2), (e[:1], e[:1] + 9)])[1].tolist()
    [2.0, 2.0]
    """
    at: dict[float, list[float]] = {}
    for epochs, values in seeds:
        for epoch, value in zip(epochs.tolist(), values.tolist(), strict=True):
            at.setdefault(epoch, []).append(value)
    epochs = sorted(at)
    return np.asarray(epochs), np.asarray([float(np.median(at[epoch])) for epoch in epochs])


def _panel(found: Sequence[Bundle], column: str, title: str) -> str:
    drawing, axes = new_plot(height=1.7 if column in RATE else 2.7)
    for bundle in found:
        _draw(axes, bundle)
    axes.set_xlabel("epoch")
    _whole_numbers(axes)
    if column in ACCURACIES | MIOUS:
        percent_axis(axes)
    elif _spread(found) > 20:
        _log_axis(axes)
    else:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}".replace("-", "−"))
    kind = "card small" if column in RATE else "card"
    return figure(themed_svg(drawing, f"curve-{column}", f"{title} over epochs, one colour per variant"), title, kind)


def new_plot(width: float = 4.3, height: float = 2.7) -> tuple[Figure, Axes]:
    """An empty plot in the report's style."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(width, height), layout="constrained")
    drawing.patch.set_visible(False)
    axes = drawing.add_subplot()
    axes.patch.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(which="both", colors=INK, labelsize=10, length=0)
    axes.xaxis.label.set(color=INK, fontsize=10)
    axes.yaxis.label.set(color=INK, fontsize=10)
    axes.grid(color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    return drawing, axes


def _draw(axes: Axes, bundle: Bundle) -> None:
    colour, dash = series_sentinel(bundle.index), series_dash(bundle.index)
    if len(bundle.seeds) > 1:
        for epochs, values in bundle.seeds:
            axes.plot(epochs, values, color=colour, linewidth=0.8, alpha=0.5)
    epochs, values = bundle.median
    marker = "o" if epochs.size < 3 else None
    axes.plot(epochs, values, color=colour, linewidth=2.2, linestyle=dash, marker=marker, markersize=4)


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _log_axis(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    decades = math.log10(high / low)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2.2 else (1.0, 3.0)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}".replace("-", "−"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _spread(found: Sequence[Bundle]) -> float:
    """Largest over smallest value; 0 when a logarithm is impossible."""
    values = np.concatenate([line[1] for bundle in found for line in bundle.seeds])
    return float(values.max() / values.min()) if values.min() > 0 else 0.0
