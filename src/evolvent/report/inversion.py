"""Images reconstructed from the representations of a network's layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.report.analyses import analysed
from evolvent.report.markup import image, section, series_heading, table, text
from evolvent.report.numbers import percent
from evolvent.report.pixels import png_uri, to_rgb
from evolvent.report.runs import Series

_SHOWN = 6  # images
_LEAD = (
    "Images that were found by descent so that a layer represents them as it does the original, with regularisers that "
    "know nothing of the data: pixels in range, and total variation. Below each image stand the relative error of the "
    "representation and that of the image: where the first is small and the second is not, the layer has forgotten."
)


def inversion_section(all_series: Sequence[Series]) -> str:
    """For each variant, of its first seed, a row of originals and one for each layer."""
    found = analysed(all_series, "inversion")
    blocks = [(series_heading(series) if len(found) > 1 else "") + _rows(series, seeds[0]) for series, seeds in found]
    return section("inversion", "Images from representations", "".join(blocks), _LEAD)


def _rows(series: Series, seed: dict[str, Any]) -> str:
    layers = seed["layers"]
    originals = layers[0]["images"][:_SHOWN]
    rows = [["original", *(_picture(values, f"original {k}", "") for k, values in enumerate(originals, 1))]]
    for layer in layers:
        shown = zip(layer["reconstructions"][:_SHOWN], layer["errors"], layer["pixel_errors"], strict=False)
        cells = [
            _picture(values, f"image {k} from {layer['layer']}", f"{percent(error, 0)}, {percent(away, 0)}")
            for k, (values, error, away) in enumerate(shown, 1)
        ]
        rows.append([f"from {text(layer['layer'])}", *cells])
    head = ["", *(f"{k}" for k in range(1, len(originals) + 1))]
    return table(f"Images reconstructed from layers of {series.label}", head, rows, "inverted")


def _picture(values: Sequence[Any], description: str, caption: str) -> str:
    pixels = to_rgb(np.array(values, dtype=np.uint8))
    height, width = pixels.shape[:2]
    below = f"<small>{text(caption)}</small>" if caption else ""
    return image(png_uri(pixels), description, width, height) + below
