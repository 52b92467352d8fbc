"""CIFAR-10 and CIFAR-100, "python version": pickled dictionaries, read by an unpickler that builds arrays only.

A batch has ``data`` uint8 (N, 3072), the red, green and blue planes of each 32 x 32 image in turn, and ``labels``
(CIFAR-10) or ``fine_labels`` (CIFAR-100), a list of integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats import pickles
from evolvent.data.formats.arrays import Arrays


def read_cifar10(files: Sequence[Path]) -> Arrays:
    """Five training batches, then the test batch."""
    *train, test = (_batch(path, b"labels") for path in files)
    return Arrays(np.concatenate([x for x, _ in train]), np.concatenate([y for _, y in train]), *test)


def read_cifar100(files: Sequence[Path]) -> Arrays:
    """The training file, then the test file; the labels are the hundred fine ones."""
    train, test = (_batch(path, b"fine_labels") for path in files)
    return Arrays(*train, *test)


def unpickle(path: Path) -> dict[bytes, Any]:
    """The dictionary in a CIFAR file, keys as bytes."""
    content = pickles.unpickle(path, "CIFAR")
    if not isinstance(content, dict):
        raise DataError(f"{path} contains a {type(content).__name__}, a dictionary is expected.")
    named = {key.encode("utf-8", "replace") if isinstance(key, str) else key: value for key, value in content.items()}
    if len(named) != len(content) or not all(isinstance(key, bytes) for key in named):
        raise DataError(f"{path} is not a CIFAR file: its keys must be different texts.")
    return named


def _batch(path: Path, label_key: bytes) -> tuple[np.ndarray, np.ndarray]:
    content = unpickle(path)
    data, labels = content.get(b"data"), content.get(label_key)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072:
        form = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise DataError(f"{path}: 'data' must be uint8 of shape (N, 3072), found {form}.")
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
        raise DataError(f"{path}: {label_key.decode()!r} must be a list of integers 0 ... 255.")
    if len(data) != len(labels) or not labels:
        raise DataError(f"{path}: every image has one label, found {len(data):,} images and {len(labels):,} labels.")
    return data.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)
