"""Street View House Numbers, cropped digits: MATLAB files of ``X`` uint8 (32, 32, 3, N), ``y`` (N, 1), 10 for zero."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import Arrays, reading


def read(files: Sequence[Path]) -> Arrays:
    """The training file, then the test file."""
    train, test = (_part(path) for path in files)
    return Arrays(*train, *test)


def _part(path: Path) -> tuple[np.ndarray, np.ndarray]:
    from scipy.io import loadmat

    with reading(path), open(path, "rb") as file:
        content = loadmat(file, variable_names=("X", "y"))
    images, labels = content.get("X"), content.get("y")
    if images is None or images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise DataError(f"{path}: 'X' must be uint8 of shape (32, 32, 3, N), found {_form(images)}.")
    if labels is None or labels.dtype.kind not in "iu" or labels.min(initial=1) < 1 or labels.max(initial=1) > 10:
        raise DataError(f"{path}: 'y' must hold integers 1 ... 10, found {_form(labels)}.")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.ravel().astype(np.int64) % 10


def _form(array: np.ndarray | None) -> str:
    return "nothing" if array is None else f"{array.dtype} {array.shape}"
