"""Features of test images as a map of points, coloured by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.report.analyses import analysed, median
from evolvent.report.axes import new_plot
from evolvent.report.markup import figure, section, swatch, table, text
from evolvent.report.numbers import count, decimal
from evolvent.report.runs import Series
from evolvent.report.theme import INK, themed_svg

_COLOURS = (
    "#3b82d0", "#e0702b", "#2f9e6e", "#c64f9b", "#a3941a", "#7d5bd0", "#d0454c", "#2aa6b3", "#8a6d5b", "#7f8794",
)  # fmt: skip
_LEGEND = 20  # classes at most
_LEAD = (
    "Features of test images, by default what the last layer decides by, mapped to the plane by t-SNE: a point is an "
    "image, its colour the true class. The silhouette score is the mean over images of (b − a) / max(a, b), with a the "
    "mean distance to the own class and b to the nearest other: 1 is best, below 0 a class lies inside another. Maps "
    "that begin otherwise look and score otherwise; the score on the features themselves does not depend on the map."
)


def clusters_section(all_series: Sequence[Series]) -> str:
    """A map for each variant, of its first seed, and the scores of all."""
    found = analysed(all_series, "features")
    if not found:
        return ""
    maps = "".join(_map(series, seeds[0]) for series, seeds in found)
    lead = _LEAD + (" Scores are medians over seeds." if any(len(seeds) > 1 for _, seeds in found) else "")
    head = ["Variant", "Images", "Numbers", "Silhouette on the map", "Silhouette on the features"]
    scores = table("Silhouette scores", head, [_row(series, seeds) for series, seeds in found])
    return section("clusters", "Clusters of features", f'<div class="panels plots">{maps}</div>{scores}', lead)


def _row(series: Series, seeds: list[dict[str, Any]]) -> list[str]:
    scores = [
        decimal(median(seeds, lambda seed, name=name: seed[name]), 4)
        for name in ("silhouette_map", "silhouette_features")
    ]
    first = seeds[0]
    return [swatch(series) + text(series.label), count(len(first["labels"])), count(first["dimension"]), *scores]


def _map(series: Series, seed: dict[str, Any]) -> str:
    points, labels = np.array(seed["points"], dtype=np.float64), np.array(seed["labels"])
    drawing, axes = new_plot(5.2, 4.2)
    axes.set(xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[["left", "bottom"]].set_visible(False)
    present = np.unique(labels)
    for k in present:
        own = points[labels == k]
        axes.scatter(own[:, 0], own[:, 1], s=7, linewidths=0, color=_COLOURS[k % len(_COLOURS)],
                     label=seed["classes"][k])  # fmt: skip
    if len(present) <= _LEGEND:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9, labelcolor=INK,
                    markerscale=2)  # fmt: skip
    svg = themed_svg(drawing, f"clusters-{series.index}", f"t-SNE of the features of {series.label}")
    where = f" at {seed['layer']}" if seed["layer"] else ""
    return figure(svg, f"{series.label}{where}: silhouette {decimal(seed['silhouette_map'], 3)}", "card")
