"""Plots and their axes: ticks, units and logarithms, the same in every picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from evolvent.report.numbers import decimal, memory, percent, short
from evolvent.report.theme import FAINT, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from evolvent.tasks.findings import Unit

_PERCENT_DIGITS = 4  # after the point, beyond which shares are written with an exponent
_FEW = 9  # so many distinct values are all written at a logarithmic axis


def new_plot(width: float = 4.3, height: float = 2.7) -> tuple[Figure, Axes]:
    """An empty plot in the report's style, with few ticks and short numbers."""
    drawing, [axes] = new_plots(1, width, height)
    return drawing, axes


def new_plots(count: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Empty plots side by side."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(width, height), layout="constrained")
    drawing.patch.set_visible(False)
    return drawing, [styled(drawing.add_subplot(1, count, k + 1)) for k in range(count)]


def styled(axes: Axes) -> Axes:
    """Axes without a frame, in the colours of the page."""
    axes.patch.set_visible(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(which="both", colors=INK, labelsize=10, length=0)
    axes.grid(color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(color=INK, fontsize=10)
        few_ticks(axis)
    return axes


def few_ticks(axis: Axis, whole: bool = False) -> None:
    """About five ticks, at whole numbers only if asked for."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1) if whole else MaxNLocator(nbins=5))
    axis.set_major_formatter(tick_number)


def tick_number(value: float, _: object = None) -> str:
    """A number at a tick.

    >>> tick_number(-0.25), tick_number(1e-16)
    ('−0.25', '1e−16')
    """
    return decimal(value, 4)


def tick_percent(value: float, ticks: Iterable[float]) -> str:
    """A share at one of the ticks of an axis, with as many digits as they all need.

    >>> tick_percent(0.5, (0.5, 0.5125, 0.525)), tick_percent(0.5, (0.4, 0.5)), tick_percent(1e-9, (0, 1e-9))
    ('50.00 %', '50 %', '1e−07 %')
    """
    percents = [100 * tick for tick in ticks]
    for digits in range(_PERCENT_DIGITS + 1):
        if all(math.isclose(tick, round(tick, digits), rel_tol=1e-9, abs_tol=1e-12) for tick in percents):
            return percent(value, digits)
    return f"{tick_number(100 * value)} %"


def unit_axis(axis: Axis, unit: Unit) -> None:
    """Write the ticks of an axis in a unit."""
    match unit:
        case "share":
            axis.set_major_formatter(lambda value, _: tick_percent(value, axis.get_majorticklocs()))
        case "count":
            axis.set_major_formatter(lambda value, _: short(value) if float(value).is_integer() else tick_number(value))
        case "bytes":
            axis.set_major_formatter(lambda value, _: memory(value))
        case "seconds":
            axis.set_major_formatter(lambda value, _: f"{tick_number(value)} s")
        case "number":
            axis.set_major_formatter(tick_number)


def within_shares(axes: Axes) -> None:
    """Keep a vertical axis of shares between none and all."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 0.0), min(high, 1.0 + 0.02 * (1.0 - low)))


def log_axis(axes: Axes) -> None:
    """A logarithmic vertical axis whose ticks are few enough to be read."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    subs = (1.0,) if math.log10(high / low) > 2 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=6))
    axes.yaxis.set_major_formatter(tick_number)
    axes.yaxis.set_minor_formatter(NullFormatter())


def log_x_axis(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic horizontal axis, with its ticks at the values if they are few."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    distinct = sorted(set(values))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(distinct) if len(distinct) <= _FEW else LogLocator(numticks=6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(tick_number)


def zero_lines(axes: Axes) -> None:
    """The two axes of the complex plane."""
    axes.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
    axes.axvline(0, color=INK, linewidth=0.8, alpha=0.6)
