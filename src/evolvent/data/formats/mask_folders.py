"""Folders of images with folders of masks: a mask is a PNG whose pixels are labels, named as its image.

Both are reduced as they are read: images to the means, masks to the majorities of equal squares.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import Arrays, reading
from evolvent.data.reduction import majority_of_squares, mean_of_squares

_IMAGES = (".jpg", ".jpeg", ".png")


def read(folders: Sequence[Path], height: int, width: int) -> Arrays:
    """Training images and masks, then validation ones if there are six folders, then test ones."""
    pairs = list(zip(folders[::2], folders[1::2], strict=True))
    names = ("train", "val", "test") if len(pairs) == 3 else ("train", "test")
    found = {}
    for name, (images, masks) in zip(names, pairs, strict=True):
        found[f"x_{name}"], found[f"y_{name}"] = _part(images, masks, height, width)
    return Arrays(**found)


def _part(images: Path, masks: Path, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The images that have masks, in the order of their names; some of a set may have none."""
    known = {path.stem: path for path in masks.glob("*.png")}
    pairs = [(p, known[p.stem]) for p in sorted(images.iterdir()) if p.suffix.lower() in _IMAGES and p.stem in known]
    if not pairs:
        raise DataError(f"{images} has no images that {masks} has masks of; a mask is named as its image, in .png.")
    x, y = np.empty((len(pairs), 3, height, width), np.uint8), np.empty((len(pairs), height, width), np.uint8)
    for row, (image, mask) in enumerate(pairs):
        x[row], y[row] = _image(image, height, width), _mask(mask, height, width)
    return x, y


def _image(path: Path, height: int, width: int) -> np.ndarray:
    pixels = torch.from_numpy(_pixels(path, "RGB")).permute(2, 0, 1)[None]
    return mean_of_squares(pixels, _factor(path, pixels.shape[2:], height, width))[0].numpy()


def _mask(path: Path, height: int, width: int) -> np.ndarray:
    labels = torch.from_numpy(_pixels(path, ""))[None]
    if labels.ndim != 3:
        raise DataError(f"{path} is a picture in colour; a mask has one label for each pixel.")
    return majority_of_squares(labels, _factor(path, labels.shape[1:], height, width))[0].numpy()


def _factor(path: Path, size: Sequence[int], height: int, width: int) -> int:
    factor = size[0] // height
    if not factor or tuple(size) != (factor * height, factor * width):
        raise DataError(f"{path} is {size[1]} x {size[0]}, a whole multiple of {width} x {height} is expected.")
    return factor


def _pixels(path: Path, mode: str) -> np.ndarray:
    """The pixels, turned into ``mode`` if one is given; a palette's indices stay indices."""
    from PIL import Image

    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a huge size is refused by the caller, whatever Pillow thinks of it
        with Image.open(path, formats=("JPEG", "PNG")) as image:
            return np.array(image.convert(mode) if mode else image, dtype=np.uint8)
