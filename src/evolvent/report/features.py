"""One input's features through a network's time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.report.axes import few_ticks, new_plot
from evolvent.report.bounds import evenly
from evolvent.report.markup import figure, image, scroll, section
from evolvent.report.pixels import png_uri, signed_strip, to_rgb
from evolvent.report.subjects import Found, Subject, folded, groups, left_out
from evolvent.report.theme import FAINT, INK, series_sentinel, themed_svg
from evolvent.tasks.findings import Features

TIMES, CHANNELS = 10, 6  # shown at most
_STRIPS = 6  # evolutions shown at most
_SHOWN = 6  # subjects at most


def features_sections(subjects: Sequence[Subject]) -> str:
    """A section for each title, with the first seed of each subject."""
    html = ""
    for k, group in enumerate(groups(subjects, "features")):
        blocks = [
            folded(found, group, _block(found, f"features-{k}-{n}")) for n, found in enumerate(group.found[:_SHOWN])
        ]
        lead = (
            "Each evolution is a strip: rows are channels, columns are states in time. Orange is positive, blue "
            "negative; the strength is relative to the channel's largest value over all times."
        )
        html += section(f"features-{k}", group.title, "".join(blocks), lead + left_out(group, _SHOWN))
    return html


def _block(found: Found, name: str) -> str:
    features: Features = found.items[0]
    maps = [(k, of_evolution) for k, of_evolution in enumerate(features.maps, 1) if of_evolution.size]
    strips = "".join(_strip(k, of_evolution, found.label) for k, of_evolution in maps[:_STRIPS])
    head = _input(features) + _norms(found, features, name)
    return f'<div class="follow">{head}</div><div class="strips">{strips}</div>'


def _input(features: Features) -> str:
    pixels = to_rgb(features.image)
    html = image(png_uri(pixels), "the input that is followed", pixels.shape[1], pixels.shape[0])
    return figure(html, "Input", "card input")


def _strip(number: int, maps: np.ndarray, label: str) -> str:
    times = evenly(len(maps), TIMES)
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


def _norms(found: Found, features: Features, name: str) -> str:
    """Norm of the features, the evolutions one after the other."""
    norms = [np.asarray(norm, dtype=np.float64) for norm in features.norms if norm.size]
    if not norms:
        return ""
    drawing, axes = new_plot(4.3, 2.3)
    start = 0
    for number, norm in enumerate(norms, 1):
        end = start + len(norm) - 1
        size = 3 if end - start < 30 else 0
        axes.plot(range(start, end + 1), norm, color=series_sentinel(found.index), linewidth=2, marker="o",
                  markersize=size)  # fmt: skip
        if number > 1:
            axes.axvline(start - 0.5, color=FAINT, linewidth=1, linestyle="--")
        axes.text((start + end) / 2, 1.02, str(number), color=INK, fontsize=9, ha="center",
                  transform=axes.get_xaxis_transform())  # fmt: skip
        start = end + 1
    axes.set_xlabel("state, evolutions one after the other")
    few_ticks(axes.xaxis, whole=True)
    finite = np.concatenate(norms)
    finite = finite[np.isfinite(finite)]
    axes.set_ylim(0, 1.08 * finite.max() if finite.size and finite.max() > 0 else 1)
    svg = themed_svg(drawing, name, f"norm of the features over time, {found.label}")
    return figure(svg, "Norm of the features over time; numbers above name the evolution", "card norm")
