"""Accuracy over the angle by which test images are turned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.report.analyses import analysed, median, numbers
from evolvent.report.lines import Bundle, Frame, Line, line_panel
from evolvent.report.markup import legend, section, swatch, table, text
from evolvent.report.numbers import count, percent
from evolvent.report.runs import Series

_FRAME = Frame(
    "Accuracy over the angle of rotation", "angle of rotation in degrees", "accuracy on turned test images",
    y_unit="share", width=5.2, height=3.2, x_ticks=tuple(range(0, 361, 45)),
)  # fmt: skip


def angles_section(all_series: Sequence[Series]) -> str:
    """All variants in one plot, their figures, and the medians at each angle, folded."""
    found = analysed(all_series, "angles")
    if not found:
        return ""
    bundles = [Bundle(series.label, series.index, [_closed(seed) for seed in seeds]) for series, seeds in found]
    lead = (
        "Test images are turned counter-clockwise about their centre, and classified. What comes in from outside has "
        "the value of the mean image."
    )
    if any(len(seeds) > 1 for _, seeds in found):
        lead += " Bold lines and figures are medians over seeds; thin lines or bands show the spread."
    panel = f'<div class="panels plots">{line_panel(bundles, _FRAME, "angles")}</div>'
    return section("angles", "Rotated images", legend(bundles) + panel + _figures(found) + _at_each(bundles), lead)


def _closed(seed: dict[str, Any]) -> Line:
    """The curve over one whole turn: where it was measured at 0 degrees, it ends as it begins."""
    angles, accuracy = numbers(seed["angles"]), numbers(seed["accuracy"])
    upright = angles == 0
    return np.append(angles, angles[upright] + 360), np.append(accuracy, accuracy[upright])


def _figures(found: list[tuple[Series, list[dict[str, Any]]]]) -> str:
    head = ["Variant", "Images", "At 0°", "Mean over angles", "Lowest", "Lowest at", "Range over angles"]
    return table("Accuracy on turned images", head, [_cells(series, seeds) for series, seeds in found])


def _cells(series: Series, seeds: list[dict[str, Any]]) -> list[str]:
    upright, mean, lowest, spread = (
        text(percent(median(seeds, lambda seed, of=of: float(of(numbers(seed["accuracy"]))))))
        for of in (_first, np.mean, np.min, np.ptp)
    )
    worst = [seed["angles"][int(np.argmin(seed["accuracy"]))] for seed in seeds]
    where = f"{min(worst):g}°" if len(set(worst)) == 1 else f"{min(worst):g} … {max(worst):g}°"
    return [swatch(series) + text(series.label), count(seeds[0]["count"]), upright, mean, lowest, where, spread]


def _first(accuracy: np.ndarray) -> float:
    return accuracy[0]


def _at_each(bundles: Sequence[Bundle]) -> str:
    medians = [dict(zip(*(axis.tolist() for axis in bundle.median), strict=True)) for bundle in bundles]
    places = sorted({angle for median in medians for angle in median if angle < 360})
    rows = [[f"{angle:g}°", *(text(percent(median.get(angle))) for median in medians)] for angle in places]
    head = ["Angle", *(swatch(bundle) + text(bundle.label) for bundle in bundles)]
    title = "<summary>Accuracy at each angle</summary>"
    return f"<details>{title}{table('Accuracy at each angle', head, rows)}</details>"
