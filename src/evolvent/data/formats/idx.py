"""IDX files of MNIST and its kin, plain or gzipped.

Format: two zero bytes, a type byte (0x08: unsigned byte), the number of dimensions, each dimension as a big-endian
32-bit integer, then exactly that many bytes.
"""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import Arrays, reading

_UNSIGNED_BYTE = 0x08


def read(files: Sequence[Path]) -> Arrays:
    """Training images and labels, test images and labels, in this order."""
    x_train, y_train, x_test, y_test = (read_idx(path, ndim) for path, ndim in zip(files, (3, 1, 3, 1), strict=True))
    return Arrays(x_train[:, None], y_train, x_test[:, None], y_test)


def read_idx(path: Path, ndim: int) -> np.ndarray:
    """The uint8 array of one file; its magic, dimensions and byte count must agree."""
    with reading(path), open_maybe_gzip(path) as file:
        shape = _header(path, file.read(4 + 4 * ndim), ndim)
        expected = math.prod(shape)
        content = file.read(expected + 1)
    if len(content) != expected:
        found = f"{len(content):,}" if len(content) < expected else "more"
        raise DataError(f"{path}: the header {shape} asks for {expected:,} bytes, found {found}.")
    return np.frombuffer(content, np.uint8).reshape(shape)


def open_maybe_gzip(path: Path) -> BinaryIO:
    """Open for reading; the first bytes, not the name, tell whether it is gzipped."""
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb")) if zipped or path.suffix == ".gz" else open(path, "rb")


def _header(path: Path, head: bytes, ndim: int) -> tuple[int, ...]:
    magic = bytes((0, 0, _UNSIGNED_BYTE, ndim))
    if head[:4] != magic:
        raise DataError(f"{path} is not an IDX file of {ndim} dimensions: magic {magic.hex()} expected, "
                        f"found {head[:4].hex() or 'nothing'}.")
    if len(head) < 4 + 4 * ndim:
        raise DataError(f"{path} ends inside its header: {4 + 4 * ndim} bytes expected, found {len(head)}.")
    return struct.unpack(f">{ndim}I", head[4:])
