"""Features of images in one file, for few-shot tasks: what a backbone gave, with the classes."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import check_path
from evolvent._core.errors import DataError
from evolvent._core.files import atomic_path
from evolvent.data.formats.arrays import parsing

_FIELDS = ("features", "labels", "base_mean")


@dataclass(frozen=True)
class FeatureSet:
    """Feature vectors with their classes, and the mean over the classes that the backbone was trained on.

    Args:
        features: one vector per image.
        labels: classes, any integers; they are numbered anew, in ascending order.
        base_mean: mean feature vector of the base classes; None if it is not known.

    Shape: features (N, d), labels int64 (N,), base_mean (d,).

    >>> found = FeatureSet(torch.zeros(4, 3), torch.tensor([7, 5, 7, 5]))
    >>> found.labels.tolist(), found.sizes.tolist()
    ([1, 0, 1, 0], [2, 2])
    """

    features: Tensor
    labels: Tensor
    base_mean: Tensor | None = None

    def __post_init__(self) -> None:
        x, y = self.features, self.labels
        if x.ndim != 2 or not x.is_floating_point() or 0 in x.shape:
            raise DataError(f"features must be floating-point numbers (N, d), got {x.dtype} of shape {tuple(x.shape)}.")
        if y.ndim != 1 or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
            raise DataError(f"labels must be integers (N,), got {y.dtype} of shape {tuple(y.shape)}.")
        if len(x) != len(y):
            raise DataError(f"every feature vector has one label, got {len(x):,} vectors and {len(y):,} labels.")
        if self.base_mean is not None and self.base_mean.shape != x.shape[1:]:
            raise DataError(f"base_mean must have shape ({x.shape[1]},), got {tuple(self.base_mean.shape)}.")
        for name, values in (("features", x), ("base_mean", self.base_mean)):
            if values is not None and not values.isfinite().all():
                raise DataError(f"some of {name} are NaN or infinite. Look at the backbone that made them.")
        object.__setattr__(self, "labels", y.unique(return_inverse=True)[1])

    @property
    def sizes(self) -> Tensor:
        """Number of vectors in each class."""
        return torch.bincount(self.labels)


def read_features(path: str | os.PathLike[str]) -> FeatureSet:
    """Read an ``.npz`` archive with ``features`` float (N, d), ``labels`` integer (N,) and perhaps ``base_mean`` (d,).

    Nothing is unpickled.
    """
    path = check_path(path, "read_features", "a file")
    if not path.is_file():
        raise DataError(
            f"{path} is neither a file of features nor a run folder. Write a file from a trained classifier of images "
            "with: evolvent features RUN --out FILE.npz."
        )
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not an npz archive; features come as one, with fields features and labels.")
    with parsing(path), np.load(path, allow_pickle=False) as archive:
        found = {name: archive[name] for name in _FIELDS if name in archive.files}
    missing = [name for name in _FIELDS[:2] if name not in found]
    if missing:
        raise DataError(f"{path} has no field {missing[0]!r}; it needs features (N, d) and labels (N,).")
    try:
        return FeatureSet(*(_tensor(found.get(name)) for name in _FIELDS))  # pyright: ignore[reportArgumentType]
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def write_features(path: str | os.PathLike[str], features: FeatureSet) -> None:
    """Write what :func:`read_features` reads; the file appears whole."""
    fields = {name: getattr(features, name) for name in _FIELDS}
    arrays = {name: value.cpu().numpy() for name, value in fields.items() if value is not None}
    with atomic_path(Path(path)) as draft, open(draft, "wb") as file:
        np.savez(file, **arrays)


def _tensor(array: np.ndarray | None) -> Tensor | None:
    if array is None:
        return None
    if array.dtype.kind == "f":
        array = array.astype(np.float64 if array.dtype == np.float64 else np.float32)
    elif array.dtype.kind in "iu":
        array = array.astype(np.int64)
    elif array.dtype.kind != "b":
        raise DataError(f"fields must be numbers, found {array.dtype} of shape {array.shape}.")
    return torch.from_numpy(np.ascontiguousarray(array))
