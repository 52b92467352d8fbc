"""Label maps: images with the true and the predicted class of every pixel, all variants side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.report.markup import figure, image, scroll, section, swatch, text
from evolvent.report.numbers import percent
from evolvent.report.pixels import png_uri, to_rgb
from evolvent.report.subjects import Found, Group, Subject, groups, left_out, pictured
from evolvent.tasks.findings import LabelMaps

_LIMIT = 320  # pixels along the longer side of a picture at most
_IMAGES, _LEAST = 32, 3  # maps of a section, and images of a sheet if it has many columns

# What street scenes hold, in the colours things have or are known by; things seldom side by side may look alike.
_KNOWN = {
    "sky": "#6cb8ee", "building": "#b0603a", "wall": "#8a7a9e", "fence": "#d89a4e", "pole": "#f2e205",
    "road": "#77808c", "pavement": "#d6a8d9", "sidewalk": "#d6a8d9", "terrain": "#9fce6a", "tree": "#2f9e44",
    "vegetation": "#2f9e44", "sign": "#ff7f0e", "traffic sign": "#ff7f0e", "traffic light": "#ffc04d",
    "car": "#2d4fd6", "truck": "#12237a", "bus": "#00a7a7", "train": "#6b4fbb", "pedestrian": "#e31a1c",
    "person": "#e31a1c", "rider": "#ff5fa2", "bicyclist": "#c51bce", "bicycle": "#c51bce", "motorcycle": "#7b1fa2",
}  # fmt: skip
_OTHERS = (
    "#3778bf", "#e8743b", "#2f9e44", "#c51bce", "#d9b611", "#6b4fbb", "#00a7a7", "#b0603a", "#e31a1c", "#77808c",
    "#8fce4a", "#ff8ab8",
)  # fmt: skip


def class_colours(classes: Sequence[str]) -> list[str]:
    """CSS colours, the same on light and dark pages.

    A class that is not known by name has one by its place, repeated after twelve.

    >>> class_colours(["sky", "moon"])
    ['#6cb8ee', '#e8743b']
    """
    return [_KNOWN.get(name.lower(), _OTHERS[place % len(_OTHERS)]) for place, name in enumerate(classes)]


def coloured(labels: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Labels as a picture; pixels without a class are transparent.

    Shape: (H, W) -> (H, W, 4) uint8.
    """
    palette = np.zeros((256, 4), np.uint8)
    for label, colour in enumerate(class_colours(classes)[:256]):
        palette[label] = (*bytes.fromhex(colour[1:]), 255)
    return palette[labels]


def label_maps_sections(subjects: Sequence[Subject]) -> str:
    """A section for each title: a row per image, a column each for image, labels and every subject's first seed."""
    html = ""
    for k, group in enumerate(groups(subjects, "label_maps")):
        sheets = "".join(_sheet(same) for same in _same_images(Group(group.title, pictured(group))))
        lead = "Images with their labels and each network's prediction. Pixels without a class are empty."
        html += section(f"labels-{k}", group.title, sheets, lead + left_out(group))
    return html


def _same_images(group: Group) -> list[list[Found]]:
    """Subjects by the images they show."""
    found: dict[bytes, list[Found]] = {}
    for one in group.found:
        if len(one.items[0].images):
            found.setdefault(one.items[0].images.tobytes(), []).append(one)
    return list(found.values())


def _sheet(group: Sequence[Found]) -> str:
    first: LabelMaps = group[0].items[0]
    head = [text("Image"), text("Labels"), *(f"{swatch(found)}{text(found.label)}" for found in group)]
    cells = "".join(f"<b>{title}</b>" for title in head)
    for row in range(min(len(first.images), max(_LEAST, _IMAGES // len(head)))):
        labels = first.labels[row]
        cells += _photograph(first.images[row], row) + _map(labels, first.classes, f"labels of image {row + 1}")
        for found in group:
            predicted = found.items[0].predictions[row]
            right = f"{percent(_share_right(predicted, labels, len(first.classes)))} of pixels right"
            cells += _map(predicted, first.classes, f"image {row + 1} as {found.label} classifies it", right)
    sheet = f'<div class="masks" style="--columns:{len(head)}">{cells}</div>'
    return _class_legend(first.classes) + scroll("Images with labels and predictions", sheet)


def _share_right(predicted: np.ndarray, labels: np.ndarray, classes: int) -> float | None:
    known = labels < classes
    return float((predicted == labels)[known].mean()) if known.any() else None


def _photograph(pixels: np.ndarray, row: int) -> str:
    picture = to_rgb(pixels, limit=_LIMIT)
    return figure(image(png_uri(picture), f"image {row + 1}", picture.shape[1], picture.shape[0]))


def _map(labels: np.ndarray, classes: Sequence[str], description: str, caption: str = "") -> str:
    stride = -(-max(labels.shape) // _LIMIT)  # labels have no mean, so pixels are left out
    pixels = coloured(labels[::stride, ::stride], classes)
    return figure(image(png_uri(pixels), description, pixels.shape[1], pixels.shape[0]), caption)


def _class_legend(classes: Sequence[str]) -> str:
    named = zip(class_colours(classes), classes, strict=True)
    items = "".join(f'<li><i style="--c:{colour}"></i>{text(name)}</li>' for colour, name in named)
    return f'<ul class="legend swatches">{items}<li><i class="empty"></i>no class</li></ul>'
