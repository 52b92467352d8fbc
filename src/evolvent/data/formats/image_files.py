"""Images in JPEG and PNG to uint8 arrays."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import parsing


def decode_jpegs(images: Iterable[tuple[Path, str, bytes]], count: int, side: int) -> np.ndarray:
    """``count`` square RGB images of width ``side``, uint8 (count, 3, side, side).

    Each item is the file, the name of the image in messages, and its JPEG bytes. Grey images become RGB.
    """
    out = np.empty((count, side, side, 3), np.uint8)
    for row, (path, name, content) in enumerate(images):
        out[row] = _decode(path, name, content, side)
    return np.ascontiguousarray(out.transpose(0, 3, 1, 2))


def _decode(path: Path, name: str, content: bytes, side: int) -> np.ndarray:
    image = open_jpeg(path, content)
    if image.size != (side, side):
        raise DataError(f"{path}: {name} is {image.width} x {image.height}, {side} x {side} is expected.")
    with parsing(path):
        return np.asarray(image.convert("RGB"))


def open_jpeg(path: Path, content: bytes):
    """The image with its header read and its pixels not yet, so that its size can be checked first."""
    from PIL import Image

    with _decoding(path):
        return Image.open(io.BytesIO(content), formats=("JPEG",))


def read_pixels(path: Path, mode: str | None) -> np.ndarray:
    """The pixels of a JPEG or PNG, converted to ``mode`` if one is given; the indices of a palette stay indices."""
    from PIL import Image

    with _decoding(path), Image.open(path, formats=("JPEG", "PNG")) as image:
        return np.array(image.convert(mode) if mode else image, dtype=np.uint8)


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    with parsing(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the caller refuses huge images, whatever Pillow thinks of them
        yield
