"""A colour for each class of a mask, the same on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
    """CSS colours; a class that is not known by name has one by its place, repeated after twelve.

    >>> class_colours(["sky", "moon"])
    ['#6cb8ee', '#e8743b']
    """
    return [_KNOWN.get(name.lower(), _OTHERS[place % len(_OTHERS)]) for place, name in enumerate(classes)]


def coloured(mask: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """A mask as a picture; pixels without a class are transparent.

    Shape: (H, W) of labels -> (H, W, 4) uint8.
    """
    palette = np.zeros((256, 4), np.uint8)
    for label, colour in enumerate(class_colours(classes)):
        palette[label] = (*bytes.fromhex(colour[1:]), 255)
    return palette[mask]
