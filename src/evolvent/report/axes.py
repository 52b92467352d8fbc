"""Axes of curves that reach over many sizes or through zero."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from evolvent.report.theme import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plain_number(value: float, _: object = None) -> str:
    """A number at a tick.

    >>> plain_number(-0.25), plain_number(1e-16)
    ('−0.25', '1e−16')
    """
    return f"{value:.4g}".replace("-", "−")


def plain_axes(axes: Axes) -> None:
    """Few ticks with short numbers on both axes."""
    from matplotlib.ticker import MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5))
        axis.set_major_formatter(plain_number)


def whole_numbers(axes: Axes) -> None:
    """Ticks of the horizontal axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def log_axis(axes: Axes) -> None:
    """A logarithmic vertical axis whose ticks are powers of ten, few enough to be read."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    subs = (1.0,) if math.log10(high / low) > 2 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=6))
    axes.yaxis.set_major_formatter(plain_number)
    axes.yaxis.set_minor_formatter(NullFormatter())


def percent_axis(axes: Axes) -> None:
    """A vertical axis of shares, written in percent and kept between none and all."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 0.0), min(high, 1.0 + 0.02 * (1.0 - low)))
    digits = 0 if high - low > 0.04 else 1
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.{digits}f} %")


def zero_lines(axes: Axes) -> None:
    """The two axes of the complex plane."""
    axes.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
    axes.axvline(0, color=INK, linewidth=0.8, alpha=0.6)
