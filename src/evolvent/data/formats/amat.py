"""Larochelle's ``.amat`` text: one image per row, 28 x 28 numbers in [0, 1] and the label last, apart by spaces.

Pixels are taken row by row as they stand and rounded to bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import Arrays, reading


def read(files: Sequence[Path]) -> Arrays:
    """The training (and validation) file, then the test file."""
    train, test = (_part(path) for path in files)
    return Arrays(*train, *test, remark="the original of Larochelle et al. 2007, rounded to bytes")


def _part(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with reading(path):
        table = np.loadtxt(path, dtype=np.float32, ndmin=2)
    if table.shape[1] != 785:
        raise DataError(f"{path}: rows of 785 numbers are expected, found {table.shape[1]}.")
    pixels, labels = table[:, :-1], table[:, -1]
    if not (pixels.min() >= 0 and pixels.max() <= 1 and (labels == np.rint(labels)).all()):
        raise DataError(f"{path}: pixels in [0, 1] and a whole label are expected, "
                        f"found pixels in [{pixels.min():g}, {pixels.max():g}].")
    return np.rint(pixels * 255).astype(np.uint8).reshape(-1, 1, 28, 28), labels.astype(np.int64)
