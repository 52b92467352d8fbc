"""Curves of a study: each plot with a legend of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evolvent.experiments.studies.result import Curve
from evolvent.report.axes import log_axis, plain_axes, plain_number
from evolvent.report.curves import new_plot
from evolvent.report.markup import figure, text
from evolvent.report.theme import DASHES, LIGHT, series_colour, series_dash, series_sentinel, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW = 9  # so many distinct values of x are all written at a logarithmic axis


def curve_figures(curves: Sequence[Curve], name: str) -> str:
    """All plots, side by side where there is room; ``name`` starts their ids."""
    panels = [_panel(curve, f"{name}-{k}") for k, curve in enumerate(curves)]
    return f'<div class="panels plots">{"".join(panels)}</div>' if panels else ""


def _panel(curve: Curve, name: str) -> str:
    drawing, axes = new_plot(width=4.6, height=3.0)
    plain_axes(axes)
    for k, (x, y) in enumerate(_lines(curve)):
        axes.plot(x, y, color=series_sentinel(k), linestyle=series_dash(k), linewidth=2, marker=_marker(len(x)),
                  markersize=4)  # fmt: skip
    axes.set_xlabel(curve.x_label)
    axes.set_ylabel(curve.y_label)
    if curve.log_y and axes.has_data():
        log_axis(axes)
    if curve.log_x and axes.has_data():
        _log_x(axes, curve)
    elif all(float(x).is_integer() for line in _lines(curve) for x in line[0]):
        _whole_x(axes)
    description = f"{curve.title}: {curve.y_label} over {curve.x_label}, one colour per series"
    return figure(_legend(curve) + themed_svg(drawing, name, description), curve.title, "card")


def _lines(curve: Curve) -> list[tuple[list[float], list[float]]]:
    """The points of each series that can be drawn."""
    found = []
    for x, y in curve.series.values():
        kept = [(a, b) for a, b in zip(x, y, strict=True) if _drawable(a, curve.log_x) and _drawable(b, curve.log_y)]
        found.append(([a for a, _ in kept], [b for _, b in kept]))
    return found


def _drawable(value: float, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _marker(count: int) -> str | None:
    return "o" if count < 12 else None


def _log_x(axes: Axes, curve: Curve) -> None:
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    values = sorted({x for line in _lines(curve) for x in line[0]})
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(values) if len(values) <= _FEW else LogLocator(numticks=6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(plain_number)


def _whole_x(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def _legend(curve: Curve) -> str:
    items = "".join(f"<li>{_key(k)}{text(name)}</li>" for k, name in enumerate(curve.series))
    return f'<ul class="legend">{items}</ul>' if len(curve.series) > 1 else ""


def _key(index: int) -> str:
    dash = DASHES[index // len(LIGHT) % len(DASHES)].css
    return f'<span class="key" style="--c:{series_colour(index)};border-top-style:{dash}"></span>'
