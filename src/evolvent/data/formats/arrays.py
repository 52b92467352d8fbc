"""What a reader returns, and how it reports a file that it cannot read."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from evolvent._core.errors import DataError

if TYPE_CHECKING:
    from evolvent.data.image_files import ImageFiles


@dataclass(frozen=True)
class Arrays:
    """Training and test arrays as read: images uint8 (N, C, H, W), labels integer (N,) or, per pixel, (N, H, W).

    Images that do not fit into memory are files.

    Attributes:
        classes: the class names that the files give, if any.
        remark: what a user should know about how the files were made.
        x_val, y_val: the validation arrays of a set that has them.
    """

    x_train: np.ndarray | ImageFiles
    y_train: np.ndarray
    x_test: np.ndarray | ImageFiles
    y_test: np.ndarray
    classes: tuple[str, ...] | None = None
    remark: str = ""
    x_val: np.ndarray | None = None
    y_val: np.ndarray | None = None


@dataclass(frozen=True)
class GraphArrays:
    """A graph as read: edges integer (2, E), features in compressed rows, a label for each node, and a split.

    Attributes:
        edges: pairs of nodes; either or both directions of an edge may be given.
        starts, columns, values: the features, of shape (nodes, ``width``).
        labels: (nodes,), -1 for none.
        train, val, test: nodes of the published split.
    """

    edges: np.ndarray
    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    width: int
    labels: np.ndarray
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


@contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Turn any exception of a third-party parser into one line that names the file.

    The block should contain that call alone. Parsers fail in many ways on damaged input, so every exception counts.
    """
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {_reason(error)}"
        raise DataError(f"{path}{_size(path)} is damaged or unreadable: {said}.") from error


def _reason(error: Exception) -> str:
    if "allow_pickle" in str(error):  # NumPy says how to switch the safety off
        return "pickled objects are not read, because that can run any code; save numbers, or words with astype(str)"
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8; save it in this encoding"
    return " ".join(str(error).split())[:150] or "no reason given"


def open_maybe_gzip(path: Path) -> BinaryIO:
    """Open for reading; the first bytes, not the name, tell whether the file is gzipped."""
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb")) if zipped or path.suffix == ".gz" else open(path, "rb")


def _size(path: Path) -> str:
    return f" ({path.stat().st_size:,} bytes)" if path.is_file() else ""
