"""Binary arrays: the IDX files of MNIST and its relatives, the bytes of STL-10, the MATLAB files of SVHN."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import Arrays, open_maybe_gzip, parsing

_UNSIGNED_BYTE = 0x08
_STL10_SIDE = 96


def read_idx_files(files: Sequence[Path]) -> Arrays:
    """Training images and labels, test images and labels, in this order."""
    x_train, y_train, x_test, y_test = (read_idx(path, ndim) for path, ndim in zip(files, (3, 1, 3, 1), strict=True))
    return Arrays(x_train[:, None], y_train, x_test[:, None], y_test)


def read_idx(path: Path, ndim: int) -> np.ndarray:
    """The uint8 array of one IDX file, plain or gzipped.

    Format: two zero bytes, a type byte (0x08: unsigned byte), the number of dimensions, each dimension as a big-endian
    32-bit integer, then exactly that many bytes. Magic number, dimensions and byte count must agree.
    """
    with parsing(path), open_maybe_gzip(path) as file:
        shape = _idx_shape(path, file.read(4 + 4 * ndim), ndim)
        expected = math.prod(shape)
        content = file.read(expected + 1)
    if len(content) != expected:
        found = f"{len(content):,}" if len(content) < expected else "more"
        raise DataError(f"{path}: the header {shape} requires {expected:,} bytes, found {found}.")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _idx_shape(path: Path, head: bytes, ndim: int) -> tuple[int, ...]:
    magic = bytes((0, 0, _UNSIGNED_BYTE, ndim))
    if head[:4] != magic:
        raise DataError(
            f"{path} is not an IDX file of {ndim} dimensions: magic {magic.hex()} expected, "
            f"found {head[:4].hex() or 'nothing'}."
        )
    if len(head) < 4 + 4 * ndim:
        raise DataError(f"{path} ends inside its header: {4 + 4 * ndim} bytes expected, found {len(head)}.")
    return struct.unpack(f">{ndim}I", head[4:])


def read_stl10(files: Sequence[Path]) -> Arrays:
    """Training images and labels, test images and labels, in this order.

    Images are bytes (N, 3, 96, 96) with each plane stored column by column, labels are bytes 1 ... 10.
    """
    x_train, y_train, x_test, y_test = files
    return Arrays(_stl10_images(x_train), _stl10_labels(y_train), _stl10_images(x_test), _stl10_labels(y_test))


def _stl10_images(path: Path) -> np.ndarray:
    content = _bytes(path)
    size = 3 * _STL10_SIDE * _STL10_SIDE
    if not len(content) or len(content) % size:
        raise DataError(f"{path}: a multiple of {size:,} bytes (3 x 96 x 96) is expected, found {len(content):,}.")
    return np.ascontiguousarray(content.reshape(-1, 3, _STL10_SIDE, _STL10_SIDE).swapaxes(2, 3))


def _stl10_labels(path: Path) -> np.ndarray:
    labels = _bytes(path).astype(np.int64)
    if not len(labels):
        raise DataError(f"{path}: labels 1 ... 10 are expected, found nothing.")
    if labels.min() < 1 or labels.max() > 10:
        raise DataError(f"{path}: labels 1 ... 10 are expected, found {labels.min()} ... {labels.max()}.")
    return labels - 1


def _bytes(path: Path) -> np.ndarray:
    with parsing(path):
        return np.fromfile(path, np.uint8)


def read_svhn(files: Sequence[Path]) -> Arrays:
    """The training file, then the test file: ``X`` uint8 (32, 32, 3, N) and ``y`` (N, 1), where 10 stands for zero."""
    train, test = (_svhn_part(path) for path in files)
    return Arrays(*train, *test)


def _svhn_part(path: Path) -> tuple[np.ndarray, np.ndarray]:
    from scipy.io import loadmat

    with parsing(path), open(path, "rb") as file:
        content = loadmat(file, variable_names=("X", "y"))
    images, labels = content.get("X"), content.get("y")
    if images is None or images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise DataError(f"{path}: 'X' must be uint8 of shape (32, 32, 3, N), found {_form(images)}.")
    if labels is None or labels.dtype.kind not in "iu" or labels.min(initial=1) < 1 or labels.max(initial=1) > 10:
        raise DataError(f"{path}: 'y' must contain integers 1 ... 10, found {_form(labels)}.")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels.ravel().astype(np.int64) % 10


def _form(array: np.ndarray | None) -> str:
    return "nothing" if array is None else f"{array.dtype} {array.shape}"
