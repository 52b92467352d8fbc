"""STL-10 binary: images as bytes (N, 3, 96, 96) with each plane stored column by column, labels as bytes 1 ... 10."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import Arrays, reading

_SIDE = 96


def read(files: Sequence[Path]) -> Arrays:
    """Training images and labels, test images and labels, in this order."""
    x_train, y_train, x_test, y_test = files
    return Arrays(_images(x_train), _labels(y_train), _images(x_test), _labels(y_test))


def _images(path: Path) -> np.ndarray:
    content = _bytes(path)
    size = 3 * _SIDE * _SIDE
    if not len(content) or len(content) % size:
        raise DataError(f"{path}: a multiple of {size:,} bytes (3 x 96 x 96) is expected, found {len(content):,}.")
    return np.ascontiguousarray(content.reshape(-1, 3, _SIDE, _SIDE).swapaxes(2, 3))


def _labels(path: Path) -> np.ndarray:
    labels = _bytes(path).astype(np.int64)
    if not len(labels) or labels.min() < 1 or labels.max() > 10:
        raise DataError(f"{path}: labels 1 ... 10 are expected, found {set(labels.tolist()) or 'nothing'}.")
    return labels - 1


def _bytes(path: Path) -> np.ndarray:
    with reading(path):
        return np.fromfile(path, np.uint8)
