"""Accuracy over a setting: a line through the medians over seeds, a dot for each seed, and the medians as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evolvent.report.axes import percent_axis
from evolvent.report.curves import Line, median_line, new_plot
from evolvent.report.markup import figure, key, legend, table, text
from evolvent.report.numbers import NONE, percent
from evolvent.report.theme import series_dash, series_sentinel, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class AccuracyLine:
    """Accuracy over a share, for each seed."""

    label: str
    index: int  # chooses the colour
    seeds: list[Line]

    @property
    def median(self) -> Line:
        return median_line(self.seeds)


def accuracy_panel(lines: Sequence[AccuracyLine], name: str, caption: str, over: str, log: bool = False) -> str:
    """Legend, plot and table; empty without lines.

    Args:
        lines: what to draw.
        name: starts the ids in the picture; must be unique on the page.
        caption: below the picture.
        over: what the horizontal axis shows, a share of one.
        log: whether that axis is logarithmic, with its ticks at the measured shares.
    """
    if not lines:
        return ""
    drawing, axes = new_plot()
    for line in lines:
        colour = series_sentinel(line.index)
        for shares, accuracies in line.seeds:
            axes.plot(shares, accuracies, color=colour, linestyle="none", marker="o", markersize=4, alpha=0.6)
        axes.plot(*line.median, color=colour, linewidth=2.2, linestyle=series_dash(line.index))
    axes.set_xlabel(over)
    _share_axis(axes, _shares(lines) if log else None)
    percent_axis(axes)
    svg = themed_svg(drawing, name, f"{caption} over {over}, one colour per line")
    return legend(lines) + f'<div class="panels">{figure(svg, caption, "card")}</div>' + _table(lines, over)


def _share_axis(axes: Axes, ticks: list[float] | None) -> None:
    """Few ticks on a linear axis, or the given ones on a logarithmic axis."""
    from matplotlib.ticker import MaxNLocator

    if ticks is None:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    else:
        axes.set_xscale("log")
        axes.set_xticks(ticks)
        axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(lambda share, _: _share(share))


def _shares(lines: Sequence[AccuracyLine]) -> list[float]:
    return sorted({share for line in lines for share in line.median[0].tolist()})


def _share(share: float) -> str:
    """A share at a tick.

    >>> _share(0.25), _share(0.025)
    ('25 %', '2.5 %')
    """
    return f"{100 * share:.4g} %"


def _table(lines: Sequence[AccuracyLine], over: str) -> str:
    shares = _shares(lines)
    rows = []
    for line in lines:
        at = dict(zip(*(axis.tolist() for axis in line.median), strict=True))
        rows.append([key(line) + text(line.label), *(text(percent(at[s]) if s in at else NONE) for s in shares)])
    return table(f"Median accuracy over {over}", ["Median over seeds", *(text(_share(s)) for s in shares)], rows)
