"""How nearly networks commute with their groups: over the layers, and of the answer for each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent.report.analyses import analysed, median, numbers
from evolvent.report.axes import few_ticks, log_axis, new_plots
from evolvent.report.markup import figure, legend, section, swatch, table, text
from evolvent.report.numbers import NONE, decimal
from evolvent.report.runs import Series
from evolvent.report.theme import series_sentinel, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Found = list[tuple[Series, list[dict[str, Any]]]]

_LEAST = 1e-8  # errors below are drawn there: a logarithm has no zero
_CAPTION = (
    "Left: the largest error of each layer, solid for elements that move pixels onto pixels, dashed for all others. "
    "Right: the error of the answer for each element by its angle; hollow where it mirrors too. "
    "Errors below 1e−8 are drawn there."
)


def equivariance_section(all_series: Sequence[Series]) -> str:
    """One picture for all variants, what breaks a symmetry, and the figures, folded."""
    found = analysed(all_series, "equivariance")
    if not found:
        return ""
    lead = (
        "Sums of Gaussian blobs are turned exactly, without interpolation, and run through the trained networks. The "
        "error is |L(g f) − g L(f)| / |L(f)|; for elements between the pixels it is taken through Gaussian windows."
    )
    if any(len(seeds) > 1 for _, seeds in found):
        lead += " All figures are medians over seeds."
    picture = figure(_picture(found), _CAPTION, "card wide")
    html = legend([series for series, _ in found]) + picture + _notes(found)
    return section("equivariance", "Equivariance", html + "".join(_layers(*one) for one in found), lead)


def _picture(found: Found) -> str:
    drawing, (left, right) = new_plots(2, 10.4, 3.3)
    for series, seeds in found:
        colour = series_sentinel(series.index)
        for name, dash in (("exact", "-"), ("others", "--")):
            errors = _over_layers(seeds, name)
            left.plot(np.arange(1, len(errors) + 1), errors, color=colour, linestyle=dash, marker="o", markersize=3)
        if seeds[0]["answer"]:
            _draw_answer(right, seeds, colour)
    left.set_xlabel("layer, in the order of the computation")
    left.set_ylabel("largest error")
    few_ticks(left.xaxis, whole=True)
    right.set_xlabel("angle of the element in degrees")
    right.set_ylabel("error of the answer")
    right.set_xticks(range(0, 361, 45))
    right.set_xlim(-10, 370)
    for axes in (left, right):
        if axes.has_data():
            log_axis(axes)
    return themed_svg(drawing, "equivariance", "Errors over the layers, and of the answer over the angle")


def _draw_answer(axes: Axes, seeds: list[dict[str, Any]], colour: str) -> None:
    first, errors = seeds[0], _medians(seeds, lambda seed: seed["answer"]["errors"])
    angles, mirrored = numbers(first["angles"]), np.array(first["mirrored"], dtype=bool)
    for chosen, fill in ((~mirrored, colour), (mirrored, "none")):
        axes.plot(angles[chosen], errors[chosen], color=colour, linestyle="none", marker="o", markersize=6,
                  markerfacecolor=fill)  # fmt: skip


def _over_layers(seeds: list[dict[str, Any]], name: str) -> np.ndarray:
    return _medians(seeds, lambda seed: [layer[name] for layer in seed["layers"]])


def _medians(seeds: list[dict[str, Any]], pick: Any) -> np.ndarray:
    return np.maximum(np.median([numbers(pick(seed)) for seed in seeds], axis=0), _LEAST)


def _notes(found: Found) -> str:
    said = [f"<li>{swatch(series)}{text(note)}</li>" for series, seeds in found for note in _said(series, seeds)]
    return f"<ul>{''.join(said)}</ul>" if said else ""


def _said(series: Series, seeds: list[dict[str, Any]]) -> list[str]:
    """What breaks a symmetry, or that no symmetry is claimed."""
    if not seeds[0]["claimed"]:
        group = seeds[0]["group"]
        return [f"{series.label} has no layers over fields and claims nothing; its answer is measured under {group}."]
    return sorted({f"{series.label}: {seed['first_broken']}" for seed in seeds if seed["first_broken"]})


def _layers(series: Series, seeds: list[dict[str, Any]]) -> str:
    rows = [_cells(parts) for parts in zip(*(_entries(seed) for seed in seeds), strict=True)]
    head = ["Layer", "Kind", "Field", "Map", "Pixels onto pixels", "Other elements"]
    title = f"<summary>{swatch(series)}{text(series.label)}: figures of each layer</summary>"
    return f"<details>{title}{table(f'Equivariance of {series.label}', head, rows)}</details>"


def _entries(seed: dict[str, Any]) -> list[dict[str, Any]]:
    return [*seed["layers"], *([seed["answer"]] if seed["answer"] else [])]


def _cells(parts: Sequence[dict[str, Any]]) -> list[str]:
    first = parts[0]
    size = NONE if first["name"] == "answer" else "×".join(map(str, first["size"]))
    errors = [decimal(median(parts, lambda part, name=name: part[name]), 2) for name in ("exact", "others")]
    return [text(first["name"]), text(first["kind"]), text(first["field"]), size, *errors]
