"""One image's features through the network's time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evolvent.experiments.record import Evaluation
from evolvent.report.curves import new_plot
from evolvent.report.markup import figure, image, key, scroll, section, text
from evolvent.report.pixels import png_uri, signed_strip, to_rgb
from evolvent.report.runs import Series
from evolvent.report.theme import FAINT, INK, series_sentinel, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIMES, CHANNELS = 10, 6  # shown at most


def trajectory_section(all_series: Sequence[Series]) -> str:
    """Feature maps over time, per variant; with many variants all but the first are folded."""
    shown = [(series, found) for series in all_series if (found := followed(series))]
    html = "".join(_block(series, found, len(shown) < 3 or k == 0) for k, (series, found) in enumerate(shown))
    lead = (
        "Each evolution is a strip: rows are channels, columns are states in time. Orange is positive, blue negative; "
        "the strength is relative to the channel's largest value over all times."
    )
    return section("trajectory", "Features through time", html, lead)


def followed(series: Series) -> Evaluation | None:
    """The first evaluation that holds features."""
    return next((e for e in series.evaluations if e.features or e.feature_norms), None)


def chosen_times(count: int, limit: int = TIMES) -> list[int]:
    """Evenly spread states, first and last included.

    >>> chosen_times(7, 4)
    [0, 2, 4, 6]
    """
    return sorted({round(k) for k in np.linspace(0, count - 1, min(count, limit)).tolist()})


def _block(series: Series, evaluation: Evaluation, is_open: bool) -> str:
    opened = " open" if is_open else ""
    title = f"<summary>{key(series)}<h3>{text(series.label)}</h3></summary>"
    strips = "".join(_strip(k, maps, series.label) for k, maps in enumerate(evaluation.features, 1) if maps.size)
    head = _input(series, evaluation) + _norms(series, evaluation)
    return f'<details{opened}>{title}<div class="follow">{head}</div><div class="strips">{strips}</div></details>'


def _input(series: Series, evaluation: Evaluation) -> str:
    pixels = to_rgb(evaluation.image)
    name = "" if series.is_segmentation else series.class_name(evaluation.image_label)
    description = "the image that is followed" + (f", of class {name}" if name else "")
    html = image(png_uri(pixels), description, pixels.shape[1], pixels.shape[0])
    return figure(html, f"Input: {name}" if name else "Input", "card input")


def _strip(number: int, maps: np.ndarray, label: str) -> str:
    times = chosen_times(len(maps))
    chosen = maps[times][:, :CHANNELS]
    pixels = signed_strip(chosen)
    height, width = pixels.shape[:2]
    description = f"feature maps of evolution {number} of {label}: {chosen.shape[1]} channels at {len(times)} times"
    rows = "".join(f"<span>{k}</span>" for k in range(1, chosen.shape[1] + 1))
    columns = "".join(f"<span>{time}</span>" for time in times)
    picture = image(png_uri(pixels), description, width, height)
    parts = f'<div class="rows">{rows}</div>{picture}<div class="times">{columns}</div>'
    inner = f'<div class="strip" style="--times:{len(times)}">{parts}</div>'
    size = "×".join(map(str, maps.shape[-2:]))
    caption = f"Evolution {number}: states 0 to {len(maps) - 1}, maps of {size} pixels"
    return figure(scroll(description, inner), caption, "card")


def _norms(series: Series, evaluation: Evaluation) -> str:
    """Norm of the features, the evolutions one after the other."""
    norms = [np.asarray(norm, dtype=np.float64) for norm in evaluation.feature_norms if norm.size]
    if not norms:
        return ""
    drawing, axes = new_plot(4.3, 2.3)
    start = 0
    for number, norm in enumerate(norms, 1):
        end = start + len(norm) - 1
        axes.plot(
            range(start, end + 1),
            norm,
            color=series_sentinel(series.index),
            linewidth=2,
            marker="o",
            markersize=3 if end - start < 30 else 0,
        )
        if number > 1:
            axes.axvline(start - 0.5, color=FAINT, linewidth=1, linestyle="--")
        axes.text(
            (start + end) / 2,
            1.02,
            str(number),
            color=INK,
            fontsize=9,
            ha="center",
            transform=axes.get_xaxis_transform(),
        )
        start = end + 1
    axes.set_xlabel("state, evolutions one after the other")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}".replace("-", "−"))
    _from_zero(axes, norms)
    svg = themed_svg(drawing, f"norm-{series.index}", f"norm of the features over time, {series.label}")
    return figure(svg, "Norm of the features over time; numbers above name the evolution", "card norm")


def _from_zero(axes: Axes, norms: Sequence[np.ndarray]) -> None:
    from matplotlib.ticker import MaxNLocator

    finite = np.concatenate(norms)
    finite = finite[np.isfinite(finite)]
    axes.set_ylim(0, 1.08 * finite.max() if finite.size and finite.max() > 0 else 1)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
