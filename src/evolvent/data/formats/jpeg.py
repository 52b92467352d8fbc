"""JPEG images to one uint8 array."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import reading


def decode(images: Iterable[tuple[Path, str, bytes]], count: int, side: int) -> np.ndarray:
    """``count`` square RGB images of width ``side``, uint8 (count, 3, side, side).

    Each item is the file, what to call the image in a message, and its JPEG bytes. Grey images become RGB.
    """
    out = np.empty((count, side, side, 3), np.uint8)
    for row, (path, name, content) in enumerate(images):
        out[row] = _decode_one(path, name, content, side)
    return np.ascontiguousarray(out.transpose(0, 3, 1, 2))


def _decode_one(path: Path, name: str, content: bytes, side: int) -> np.ndarray:
    image = opened(path, content)
    if image.size != (side, side):
        raise DataError(f"{path}: {name} is {image.width} x {image.height}, {side} x {side} is expected.")
    with reading(path):
        return np.asarray(image.convert("RGB"))


def opened(path: Path, content: bytes):
    """The image with its header read and its pixels not yet, so that its size can be judged first."""
    from PIL import Image

    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a huge size is refused by the caller, whatever Pillow thinks of it
        return Image.open(io.BytesIO(content), formats=("JPEG",))
