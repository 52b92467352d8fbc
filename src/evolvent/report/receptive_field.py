"""Which pixels a feature pixel sees, as pictures and figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.report.analyses import analysed, median
from evolvent.report.markup import figure, image, section, series_heading, swatch, table, text
from evolvent.report.numbers import count, decimal, percent
from evolvent.report.pixels import heat, png_uri
from evolvent.report.runs import Series

_WIDE = "grid-template-columns:repeat(auto-fill,minmax(min(100%,10rem),12rem))"


def field_of_view_section(all_series: Sequence[Series]) -> str:
    """A map for each evolution of each variant, then the measures."""
    found = analysed(all_series, "field-of-view")
    if not found:
        return ""
    lead = (
        "The gradient magnitude of the middle feature pixel with respect to the pixels of the image, after each "
        "evolution; mean over images, channels and seeds. The opacity is the square root of the share of the largest "
        "value. The radius is the root mean square distance from the centre of the map, the area an effective number "
        "of pixels."
    )
    maps = "".join(_maps(series, seeds) for series, seeds in found)
    return section("field-of-view", "Field of view", maps + _table(found), lead)


def _maps(series: Series, seeds: list[dict[str, Any]]) -> str:
    pictures = [_picture(series, k, parts) for k, parts in enumerate(_by_evolution(seeds), 1)]
    return f'{series_heading(series)}<div class="thumbnails" style="{_WIDE}">{"".join(pictures)}</div>'


def _by_evolution(seeds: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [list(parts) for parts in zip(*(seed["fields"] for seed in seeds), strict=True)]


def _picture(series: Series, number: int, parts: list[dict[str, Any]]) -> str:
    seen = np.mean([np.array(part["map"], dtype=np.float64) for part in parts], axis=0)
    description = f"field of view of the middle pixel after evolution {number} of {series.label}"
    height, width = seen.shape
    picture = image(png_uri(heat(seen)), description, width, height)
    radius = decimal(median(parts, lambda p: p["radius"]), 3)
    return figure(picture, f"Evolution {number}: radius {radius} pixels", "card")


def _table(found: list[tuple[Series, list[dict[str, Any]]]]) -> str:
    head = ["Variant", "Evolution", "Feature pixel", "Radius", "Area", "Box", "Pixels seen", "Share of the image"]
    rows = [
        _cells(series, number, parts) for series, seeds in found for number, parts in enumerate(_by_evolution(seeds), 1)
    ]
    return "<h3>Figures</h3>" + table("Fields of view", head, rows)


def _cells(series: Series, number: int, parts: list[dict[str, Any]]) -> list[str]:
    first = parts[0]
    seen = median(parts, lambda p: p["support"]) or 0.0
    return [
        swatch(series) + text(series.label),
        f"{number} <small>{text(first['name'])}</small>",
        f"{first['pixel'][0]}, {first['pixel'][1]}",
        decimal(median(parts, lambda p: p["radius"]), 3),
        decimal(median(parts, lambda p: p["area"]), 3),
        "×".join(str(side) for side in first["box"]),
        count(seen),
        text(percent(seen / np.size(first["map"]), 0)),
    ]
