"""Segmentation: images with their true and predicted masks side by side, and how well each class is found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.report.class_colours import class_colours, coloured
from evolvent.report.markup import figure, image, key, scroll, section, table, text
from evolvent.report.numbers import NONE, percent
from evolvent.report.pixels import png_uri, to_rgb
from evolvent.report.runs import Series
from evolvent.report.summary import statistic
from evolvent.report.theme import series_colour


def masks_section(all_series: Sequence[Series]) -> str:
    """Rows of images; a column each for the image, its labels and the prediction of every variant's first seed."""
    html = "".join(_sheet(group) for group in _same_images(all_series))
    lead = "Test images, evenly spread, with their labels and what each network says. Pixels without a class are empty."
    return section("masks", "Predictions", html, lead)


def iou_section(all_series: Sequence[Series]) -> str:
    """A table of intersection over union, a row per class and a column per variant, with bars."""
    html = "".join(_iou_table(group) for group in _same_classes(all_series))
    lead = (
        "Intersection over union of each class on the test images, median over seeds: pixels rightly given the class, "
        "over all that have it or were given it. mIoU is the mean over the classes that occur."
    )
    return section("iou", "Classes", html, lead)


def median_iou(series: Series) -> list[float | None]:
    """The median over seeds for each class; None for one that does not occur."""
    seeds = [result.iou for result in series.results if result.iou is not None]
    columns = [[share for share in column if share is not None] for column in zip(*seeds, strict=True)]
    return [found.median if (found := statistic(column)) else None for column in columns]


def _same_images(all_series: Sequence[Series]) -> list[list[Series]]:
    """Series grouped by the images they show."""
    groups: dict[bytes, list[Series]] = {}
    for series in all_series:
        if series.evaluations and len(series.evaluations[0].shown_images):
            groups.setdefault(series.evaluations[0].shown_images.tobytes(), []).append(series)
    return list(groups.values())


def _same_classes(all_series: Sequence[Series]) -> list[list[Series]]:
    groups: dict[tuple[str, ...], list[Series]] = {}
    for series in all_series:
        if any(result.iou is not None for result in series.results):
            groups.setdefault(tuple(series.results[0].classes), []).append(series)
    return list(groups.values())


def _sheet(group: Sequence[Series]) -> str:
    first = group[0].evaluations[0]
    classes = group[0].results[0].classes if group[0].results else []
    head = [text("Image"), text("Labels"), *(f"{key(series)}{text(series.label)}" for series in group)]
    cells = "".join(f"<b>{title}</b>" for title in head)
    for row, (pixels, labels) in enumerate(zip(first.shown_images, first.shown_labels, strict=True)):
        cells += _photograph(pixels, row) + _mask(labels, classes, f"labels of image {row + 1}")
        for series in group:
            predicted = series.evaluations[0].shown_predictions[row]
            share = f"{percent(_accuracy(predicted, labels, len(classes)))} of pixels right"
            cells += _mask(predicted, classes, f"image {row + 1} as {series.label} sees it", share)
    sheet = f'<div class="masks" style="--columns:{len(head)}">{cells}</div>'
    return _class_legend(classes) + scroll("Images with labels and predictions", sheet)


def _accuracy(predicted: np.ndarray, labels: np.ndarray, classes: int) -> float | None:
    known = labels < classes
    return float((predicted == labels)[known].mean()) if known.any() else None


def _photograph(pixels: np.ndarray, row: int) -> str:
    picture = to_rgb(pixels, limit=320)
    return figure(image(png_uri(picture), f"test image {row + 1}", picture.shape[1], picture.shape[0]))


def _mask(mask: np.ndarray, classes: Sequence[str], description: str, caption: str = "") -> str:
    height, width = mask.shape
    return figure(image(png_uri(coloured(mask, classes)), description, width, height), caption)


def _class_legend(classes: Sequence[str]) -> str:
    named = zip(class_colours(classes), classes, strict=True)
    items = "".join(f'<li><i style="--c:{colour}"></i>{text(name)}</li>' for colour, name in named)
    return f'<ul class="legend swatches">{items}<li><i class="empty"></i>no class</li></ul>'


def _iou_table(group: Sequence[Series]) -> str:
    classes = group[0].results[0].classes
    medians = [median_iou(series) for series in group]
    head = ["Class", *(f"{key(series)}{text(series.label)}" for series in group)]
    rows = [
        [
            f'<i class="swatch" style="--c:{colour}"></i>{text(name)}',
            *(_bar(found[place], series) for series, found in zip(group, medians, strict=True)),
        ]
        for place, (name, colour) in enumerate(zip(classes, class_colours(classes), strict=True))
    ]
    return table("Intersection over union of each class", head, rows, "iou")


def _bar(share: float | None, series: Series) -> str:
    if share is None:
        return NONE
    bar = f'<i style="--c:{series_colour(series.index)};--s:{100 * share:.1f}%"></i>'
    return f'<span class="share">{text(percent(share))}</span>{bar}'
