"""Pickles of published data sets, read by an unpickler that builds arrays and whatever else a format admits by name."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import parsing

_RECONSTRUCT = np.empty(0).__reduce__()[0]  # numpy's own, wherever this version defines it
ARRAYS: Mapping[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}
"""What rebuilds an array, two types and a function; dict, list, bytes, str and int need nothing."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, path: Path, admitted: Mapping[tuple[str, str], Any], whose: str, encoding: Any) -> None:
        super().__init__(io.BytesIO(path.read_bytes()), encoding=encoding)
        self._path, self._admitted, self._whose = path, admitted, whose

    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return self._admitted[module_name, global_name]
        except KeyError:
            name = f"{module_name}.{global_name}"[:80]
            raise DataError(
                f"{self._path} refers to {name}, which no {self._whose} file needs; "
                f"it was not executed. Do not trust this file."
            ) from None


def unpickle(
    path: Path,
    whose: str,
    admitted: Mapping[tuple[str, str], Any] = ARRAYS,
    encoding: Literal["bytes", "latin1"] = "bytes",
) -> Any:
    """What a pickle contains; a name that is not admitted is refused and never looked up.

    Args:
        path: the file.
        whose: the set's name in messages.
        admitted: what stands for each (module, name) that a file may refer to.
        encoding: of the texts of Python 2.
    """
    with parsing(path):
        return _Unpickler(path, admitted, whose, encoding).load()
