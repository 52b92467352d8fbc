"""What neural ePDOs do where: maps of their coefficients over example images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent.report.analyses import analysed
from evolvent.report.markup import figure, scroll, section, series_heading
from evolvent.report.numbers import decimal, percent
from evolvent.report.pixels import NEGATIVE, POSITIVE, shrink
from evolvent.report.runs import Series
from evolvent.report.theme import INK, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LAYERS = 8  # shown at most
_LIMIT = 48  # pixels along a side of a map
_ARROWS = 11  # along a side, at most
_FAINT = 0.06  # vectors shorter than this share of the longest are not drawn
_STRENGTH = (126, 60, 168)  # colour of what has no sign
_MEANS = ("identity", "first derivative", "Laplacian", "second, directed")
_LEAD = (
    "Each layer makes the coefficients of its derivatives from the features at each pixel; the image lies below in "
    "grey. The first four columns are means over all fields and orientations: orange is positive, blue negative, "
    "arrows are the direction in which the layer differentiates, strokes the axis of its second derivative without the "
    "Laplacian. The other columns are the strength of each order, root mean square over fields and orientations. "
    "Shades are relative to the largest value, which stands below each map."
)


def coefficients_section(all_series: Sequence[Series]) -> str:
    """The first seed of each variant that has neural ePDOs, a row for each layer."""
    found = analysed(all_series, "coefficients")
    blocks = [
        (series_heading(series) if len(found) > 1 else "") + _examples(series, seeds[0]) for series, seeds in found
    ]
    return section("coefficients", "Coefficients of neural ePDOs", "".join(blocks), _LEAD)


def _examples(series: Series, seed: dict[str, Any]) -> str:
    """All images, folded but for the first."""
    pictures = [_picture(series, seed, k) for k in range(len(seed["images"]))]
    others = "".join(pictures[1:])
    folded = f"<details><summary>Other images</summary>{others}</details>" if others else ""
    return pictures[0] + folded


def _picture(series: Series, seed: dict[str, Any], number: int) -> str:
    from matplotlib.figure import Figure

    image, layers = np.array(seed["images"][number]), seed["layers"][:_LAYERS]
    columns = len(_MEANS) + max(len(layer["shares"]) for layer in layers) - 1
    drawing = Figure(figsize=(1.35 * columns, 1.5 * len(layers) + 0.3), layout="constrained")
    drawing.patch.set_visible(False)
    grid = drawing.subplots(len(layers), columns, squeeze=False)
    for row, layer in zip(grid, layers, strict=True):
        _draw_layer(row, layer, image, number)
    titles = [*_MEANS, *(f"order {m + 1}" for m in range(columns - len(_MEANS)))]
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title, color=INK, fontsize=10)
    name = f"coefficients-{series.index}-{number}"
    svg = themed_svg(drawing, name, f"coefficients of {series.label} on image {number + 1}, a row for each layer")
    return figure(scroll(f"Coefficients on image {number + 1}", svg), _caption(layers), "card")


def _caption(layers: Sequence[dict[str, Any]]) -> str:
    """Which order each layer uses most."""
    said = []
    for layer in layers:
        shares = np.array(layer["shares"])
        said.append(f"{layer['name']}: order {shares.argmax()} has {percent(shares.max(), 0)}")
    return f"Of all squared coefficients, over all images: {'; '.join(said)}."


def _draw_layer(row: Sequence[Axes], layer: dict[str, Any], image: np.ndarray, number: int) -> None:
    for axes in row:
        _underlay(axes, image)
    identity, laplacian = (np.array(layer[name][number]) for name in ("identity", "laplacian"))
    gradient, directed = (np.array(layer[name][number]) for name in ("gradient", "directed"))
    angle = np.arctan2(directed[1], directed[0]) / 2
    size = np.hypot(*directed)
    spacing = layer["spacing"]
    _overlay(row[0], identity, spacing, signed=True)
    _overlay(row[1], np.hypot(*gradient), spacing)
    _strokes(row[1], gradient, spacing, heads=True)
    _overlay(row[2], laplacian, spacing, signed=True)
    _overlay(row[3], size, spacing)
    _strokes(row[3], size * np.array([np.cos(angle), np.sin(angle)]), spacing, heads=False)
    for axes, strength in zip(row[4:], layer["strengths"][number][1:], strict=False):
        _overlay(axes, np.array(strength), spacing)
    row[0].set_ylabel(layer["name"], color=INK, fontsize=9)


def _underlay(axes: Axes, image: np.ndarray) -> None:
    """The image in pale grey; opaque, so that light and dark pages show the same."""
    low, high = float(np.median(image)), float(image.max())  # most of a picture is background
    grey = 1 - 0.45 * np.clip((image - low) / (high - low or 1.0), 0, 1)
    height, width = image.shape
    axes.imshow(np.repeat(grey[..., None], 3, axis=2), extent=(-width / 2, width / 2, -height / 2, height / 2),
                interpolation="none")  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _overlay(axes: Axes, values: np.ndarray, spacing: int, *, signed: bool = False) -> None:
    """Values as colours whose opacity is the size, and the largest size as a number."""
    largest = float(np.abs(values).max())
    height, width = (spacing * side / 2 for side in values.shape)
    small = shrink(values, _LIMIT)
    pixels = np.empty((*small.shape, 4))
    positive, negative = (POSITIVE, NEGATIVE) if signed else (_STRENGTH, _STRENGTH)
    pixels[..., :3] = np.where(small[..., None] > 0, positive, negative) / np.array(255)
    pixels[..., 3] = 0.7 * np.abs(small) / (largest or 1.0)
    limits = axes.get_xlim(), axes.get_ylim()
    axes.imshow(pixels, extent=(-width, width, -height, height), interpolation="none")
    axes.set(xlim=limits[0], ylim=limits[1])
    axes.set_xlabel(decimal(largest, 2), color=INK, fontsize=8, labelpad=2)


def _strokes(axes: Axes, vectors: np.ndarray, spacing: int, *, heads: bool) -> None:
    """Arrows, or strokes without a head where an axis has no direction."""
    step = -(-max(vectors.shape[1:]) // _ARROWS)
    height, width = vectors.shape[1:]
    rows, columns = np.arange(step // 2, height, step), np.arange(step // 2, width, step)
    chosen = vectors[:, rows[:, None], columns] / (np.hypot(*vectors).max() or 1.0)
    long = np.hypot(*chosen) > _FAINT
    right, up = 1.2 * step * spacing * chosen[:, long]
    x, y = np.meshgrid(spacing * (columns - (width - 1) / 2), spacing * ((height - 1) / 2 - rows))
    axes.quiver(x[long], y[long], right, up, angles="xy", scale_units="xy", scale=1, pivot="middle", color="#222222",
                width=0.011, headwidth=3 * heads, headlength=5 * heads, headaxislength=4.5 * heads)  # fmt: skip
