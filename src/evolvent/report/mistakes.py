"""The misclassified images a network was most sure about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.experiments.record import Evaluation
from evolvent.report.markup import figure, image, key, section, text
from evolvent.report.numbers import percent
from evolvent.report.pixels import png_uri, to_rgb
from evolvent.report.runs import Series


@dataclass(frozen=True)
class Mistake:
    """A misclassified image."""

    image: np.ndarray  # (C, H, W) uint8
    label: int
    prediction: int
    confidence: float


def mistakes_section(all_series: Sequence[Series]) -> str:
    """A grid of images per variant; with many variants all but the first are folded."""
    shown = [series for series in all_series if series.evaluations and not series.is_segmentation]
    html = "".join(_block(series, is_open=len(shown) < 3 or k == 0) for k, series in enumerate(shown))
    lead = "Test images that were misclassified with the highest confidence: true → predicted (confidence)."
    return section("mistakes", "Misclassified images", html, lead)


def most_confident(series: Series, limit: int = 24) -> list[Mistake]:
    """The surest mistakes over all seeds, each image once."""
    found = [mistake for evaluation in series.evaluations for mistake in _mistakes(evaluation)]
    found.sort(key=lambda mistake: -mistake.confidence)
    distinct: dict[bytes, Mistake] = {}
    for mistake in found:
        distinct.setdefault(mistake.image.tobytes(), mistake)
    return list(distinct.values())[:limit]


def _mistakes(found: Evaluation) -> list[Mistake]:
    columns = (found.wrong_images, found.wrong_labels, found.wrong_predictions, found.wrong_confidences)
    return [
        Mistake(picture, int(label), int(prediction), float(confidence))
        for picture, label, prediction, confidence in zip(*columns, strict=True)
    ]


def _block(series: Series, is_open: bool) -> str:
    found = most_confident(series)
    pictures = "".join(_picture(series, mistake) for mistake in found) or "<p>None.</p>"
    opened = " open" if is_open else ""
    title = f"<summary>{key(series)}<h3>{text(series.label)}</h3></summary>"
    return f'<details{opened}>{title}<div class="thumbnails">{pictures}</div></details>'


def _picture(series: Series, mistake: Mistake) -> str:
    true, predicted = series.class_name(mistake.label), series.class_name(mistake.prediction)
    pixels = to_rgb(mistake.image)
    description = f"test image of class {true}, taken for {predicted}"
    height, width = pixels.shape[:2]
    return figure(
        image(png_uri(pixels), description, width, height), f"{true} → {predicted} ({percent(mistake.confidence)})"
    )
