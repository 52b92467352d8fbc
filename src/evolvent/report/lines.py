"""Lines over seeds: each seed, or a band once they are many, and their median."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evolvent.report.axes import few_ticks, log_axis, log_x_axis, new_plot, unit_axis, within_shares
from evolvent.report.bounds import evenly
from evolvent.report.markup import figure, swatch, table, text
from evolvent.report.numbers import write
from evolvent.report.theme import series_dash, series_sentinel, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from evolvent.tasks.findings import Unit

MANY_SEEDS = 12  # above, seeds are drawn as a band
_MANY_LINES = 48  # single seeds in one plot, above which all are drawn as bands
_POINTS = 1600  # of all lines of one plot together, about
_DOTS = 12  # values of x up to which seeds are dots rather than lines

Line = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Bundle:
    """Lines of one kind, a line for each seed."""

    label: str
    index: int  # chooses the colour
    seeds: list[Line]

    @property
    def median(self) -> Line:
        return median_line(self.seeds)


@dataclass(frozen=True)
class Frame:
    """What a plot shows besides its lines."""

    title: str
    x_label: str
    y_label: str = ""
    x_unit: Unit = "number"
    y_unit: Unit = "number"
    log_x: bool = False
    log_y: bool = False
    dots: bool = False  # whether few points of a seed are dots rather than a line
    x_ticks: tuple[float, ...] = ()  # where the ticks of a linear axis are, if not at round numbers
    width: float = 4.3
    height: float = 2.7


def quantile_lines(seeds: Sequence[Line], levels: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles over the seeds that have a value, at every x that any of them has.

    Shape: (points,), (levels, points).
    """
    x = np.concatenate([line[0] for line in seeds]) if seeds else np.empty(0)
    y = np.concatenate([line[1] for line in seeds]) if seeds else np.empty(0)
    order = np.lexsort((y, x))
    places, starts = np.unique(x[order], return_index=True)
    parts = np.split(y[order], starts[1:])
    found = [np.quantile(part, levels) for part in parts] if len(places) else []
    return places, np.array(found).reshape(len(places), len(levels)).T


def median_line(seeds: Sequence[Line]) -> Line:
    """Median over the seeds that were measured, point by point.

    >>> e = np.arange(2.0)
    >>> median_line([(e, e), (e, e + 2), (e[:1], e[:1] + 9)])[1].tolist()
    [2.0, 2.0]
    """
    x, (median,) = quantile_lines(seeds, (0.5,))
    return x, median


def drawable(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, frame: Frame | None = None) -> Line:
    """The points of a line that can be drawn: finite, and positive where there is a logarithm."""
    found = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    kept = np.isfinite(found[0]) & np.isfinite(found[1])
    if frame and frame.log_x:
        kept &= found[0] > 0
    if frame and frame.log_y:
        kept &= found[1] > 0
    return found[0][kept], found[1][kept]


def line_panel(bundles: Sequence[Bundle], frame: Frame, name: str, html_below: str = "") -> str:
    """One plot of several bundles; ``name`` starts its ids and must be unique on the page."""
    drawing, axes = new_plot(frame.width, frame.height)
    singly = sum(len(bundle.seeds) for bundle in bundles) <= _MANY_LINES
    for bundle in bundles:
        _draw(axes, bundle, frame, singly, max(24, _POINTS // max(1, len(bundles))))
    axes.set_xlabel(frame.x_label)
    axes.set_ylabel(frame.y_label)
    if axes.has_data():
        _set_axes(axes, bundles, frame)
    over = f"{frame.y_label or frame.title} over {frame.x_label}"
    svg = themed_svg(drawing, name, f"{frame.title}: {over}, one colour per line")
    return figure(svg + html_below, frame.title, "card small" if frame.height < 2 else "card")


def _set_axes(axes: Axes, bundles: Sequence[Bundle], frame: Frame) -> None:
    places = [x for bundle in bundles for line in bundle.seeds for x in np.unique(line[0]).tolist()]
    if frame.log_y:
        log_axis(axes)
    if frame.log_x:
        log_x_axis(axes, places)
    elif frame.x_ticks:
        axes.set_xticks(frame.x_ticks)
    elif frame.x_unit in ("number", "count") and all(x.is_integer() for x in places):
        few_ticks(axes.xaxis, whole=True)
    if frame.y_unit == "share" and not frame.log_y:
        within_shares(axes)
    if frame.x_unit != "number":
        unit_axis(axes.xaxis, frame.x_unit)
    if frame.y_unit != "number":
        unit_axis(axes.yaxis, frame.y_unit)


def _draw(axes: Axes, bundle: Bundle, frame: Frame, singly: bool, points: int) -> None:
    """The spread over seeds faintly, their median above."""
    colour, seeds = series_sentinel(bundle.index), bundle.seeds
    few_points = max((line[0].size for line in seeds), default=0) <= _DOTS
    if len(seeds) > MANY_SEEDS or (len(seeds) > 1 and not singly):
        x, (low, high) = quantile_lines(seeds, (0.1, 0.9))
        kept = evenly(x.size, points // 3)
        axes.fill_between(x[kept], low[kept], high[kept], color=colour, alpha=0.22, linewidth=0)
    elif frame.dots and few_points:
        for line in seeds if len(seeds) > 1 else ():
            axes.plot(*line, color=colour, linestyle="none", marker="o", markersize=4, alpha=0.6)
    elif len(seeds) > 1:
        for x, y in seeds:
            kept = evenly(x.size, points // (1 + len(seeds)))
            axes.plot(x[kept], y[kept], color=colour, linewidth=0.8, alpha=0.5)
    x, y = bundle.median
    kept = evenly(x.size, points // 3)
    marked = x.size < 3 or (frame.dots and few_points and len(seeds) == 1)
    axes.plot(x[kept], y[kept], color=colour, linewidth=2.2, linestyle=series_dash(bundle.index),
              marker="o" if marked else None, markersize=4)  # fmt: skip


def values_table(bundles: Sequence[Bundle], frame: Frame) -> str:
    """The medians as a table with a column for each x; none if there are many."""
    medians = [dict(zip(*(axis.tolist() for axis in bundle.median), strict=True)) for bundle in bundles]
    places = sorted({x for median in medians for x in median})
    if not 2 <= len(places) <= _DOTS:
        return ""
    rows = [
        [swatch(bundle) + text(bundle.label), *(text(write(median.get(x), frame.y_unit)) for x in places)]
        for bundle, median in zip(bundles, medians, strict=True)
    ]
    head = [text(frame.x_label), *(text(_place(x, frame.x_unit)) for x in places)]
    title = f"<summary>{text(frame.title)} in figures, medians over seeds</summary>"
    return f"<details>{title}{table(frame.title, head, rows)}</details>"


def _place(x: float, unit: Unit) -> str:
    """A value of x as it was chosen, without digits that were not.

    >>> _place(0.025, "share"), _place(8.0, "number")
    ('2.5 %', '8')
    """
    return f"{100 * x:.4g} %" if unit == "share" else write(x, unit)
