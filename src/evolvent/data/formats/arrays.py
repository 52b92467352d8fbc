"""What a reader returns, and how it reports a file that is not what it should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolvent._core.errors import DataError


@dataclass(frozen=True)
class Arrays:
    """Training and test arrays as read: images uint8 (N, C, H, W), labels integer (N,) or, per pixel, (N, H, W).

    ``classes`` are the names the files give, if any; ``remark`` is what a reader should know of the files' making;
    ``x_val`` and ``y_val`` are the validation arrays of a set that has some.
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    classes: tuple[str, ...] | None = None
    remark: str = ""
    x_val: np.ndarray | None = None
    y_val: np.ndarray | None = None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a foreign parser throws at a damaged file into one line that names the file.

    The block should hold the foreign call alone. Parsers fail in every way on damaged input, so every exception counts.
    """
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "no more is known"
        raise DataError(f"{path}{_size(path)} is damaged or unreadable: {type(error).__name__}: {reason}.") from error


def _size(path: Path) -> str:
    return f" ({path.stat().st_size:,} bytes)" if path.is_file() else ""
