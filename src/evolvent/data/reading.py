"""A data set by name, read and checked against its catalogue entry."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

import numpy as np
import torch

from evolvent._core.errors import DataError
from evolvent.data.datasets import CatalogueEntry, describe, list_datasets
from evolvent.data.formats.arrays import Arrays
from evolvent.data.image_files import ImageFiles
from evolvent.data.image_set import ImageData, ImageSet
from evolvent.data.locations import Location, locate


def load(name: str, folder: str | os.PathLike[str] | None = None) -> ImageData:
    """Read a data set, into memory unless its catalogue entry says otherwise; nothing is downloaded.

    Args:
        name: one of :func:`list_datasets`.
        folder: contains the set or a folder named after it; by default ``EVOLVENT_DATA``, then what installed packages
            contain, then the cache of :func:`fetch`.

    >>> data = load("digits")
    >>> len(data.train), len(data.test), data.train.shape
    (1437, 360, (1, 8, 8))
    """
    found = read(locate(name, folder))
    return found if folder else replace(found, section={"name": name})


def read(location: Location) -> ImageData:
    """Read and check the files that were located."""
    entry = location.entry
    if entry.kind != "images":
        raise DataError(f"{entry.name} is a graph, not a set of images. Read it with evolvent.data.load_graph.")
    try:
        arrays = location.match.layout.read(location.files)
        assert isinstance(arrays, Arrays)
        _refuse_other_set(entry, arrays, location)
        classes = _classes(entry, arrays, location)
        folder = location.match.folder
        train = _image_set(entry, arrays.x_train, arrays.y_train, classes, f"{folder}, training images")
        test = _image_set(entry, arrays.x_test, arrays.y_test, classes, f"{folder}, test images")
        val = None
        if arrays.x_val is not None and arrays.y_val is not None:
            val = _image_set(entry, arrays.x_val, arrays.y_val, classes, f"{folder}, validation images")
    except DataError as error:
        raise DataError(f"{entry.name}: {error} {entry.advice}") from error
    return ImageData(entry.name, train, test, _source(location, train, test, arrays.remark), val)


def _image_set(
    entry: CatalogueEntry, x: np.ndarray | ImageFiles, y: np.ndarray, classes: tuple[str, ...], what: str
) -> ImageSet:
    if len(x) != len(y):
        raise DataError(f"{what}: {len(x):,} images but {len(y):,} labels.")
    if len(x) == 0:
        raise DataError(f"{what}: there are no images.")
    if x.shape[1:] not in (entry.shape, *entry.other_shapes):
        raise DataError(f"{what}: images of shape {entry.shape} are expected, found {x.shape[1:]}.")
    if entry.ignore is not None and y.shape[1:] != x.shape[2:]:
        raise DataError(f"{what}: labels of shape {x.shape[2:]} per image are expected, found {y.shape[1:]}.")
    labelled = y if entry.ignore is None else y[y != entry.ignore]
    if labelled.size == 0:
        raise DataError(f"{what}: no pixel has a class.")
    low, high = labelled.min(), labelled.max()
    if low < 0 or high >= len(classes):
        raise DataError(f"{what}: labels 0 ... {len(classes) - 1} are expected, found {low} ... {high}.")
    dtype = np.int64 if entry.ignore is None else np.uint8
    images = x if isinstance(x, ImageFiles) else _tensor(x)
    return ImageSet(images, _tensor(y.astype(dtype, copy=False)), classes, entry.ignore)


def _tensor(array: np.ndarray) -> torch.Tensor:
    """A tensor needs writable memory; readers of raw bytes return memory that is not."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _classes(entry: CatalogueEntry, arrays: Arrays, location: Location) -> tuple[str, ...]:
    classes = entry.classes or arrays.classes or tuple(map(str, range(entry.class_count)))
    if len(classes) != entry.class_count:
        raise DataError(f"{location.match.folder}: {entry.class_count} classes are expected, found {len(classes)}.")
    return classes


def _refuse_other_set(entry: CatalogueEntry, arrays: Arrays, location: Location) -> None:
    """Sets with equal file names and shapes (MNIST, Fashion-MNIST) must not be mistaken for each other."""
    found = hashlib.sha256(arrays.y_test.astype(np.uint8).tobytes()).hexdigest()
    for other in map(describe, list_datasets()):
        if other.test_labels == found and other.name != entry.name:
            raise DataError(f"the files in {location.match.folder} are the files of {other.name}.")


def _source(location: Location, train: ImageSet, test: ImageSet, remark: str) -> str:
    """Where the images came from; the text also mentions a subset, another size and a rebuilt set."""
    entry, match = location.entry, location.match
    if location.origin in {shipped.title for shipped in entry.shipped}:
        text = location.origin if len(match.files) > 1 else match.layout.title
    else:
        what = match.files[0].name if len(match.files) == 1 else match.layout.title
        text = f"{what} in {match.folder}"
    text += f", {len(train):,} / {len(test):,} images"
    if (len(train), len(test)) != (entry.train_count, entry.test_count):
        text += f" (a subset of {entry.train_count:,} / {entry.test_count:,})"
    if train.shape != entry.shape:
        text += f", {train.shape[1]} x {train.shape[2]} instead of {entry.shape[1]} x {entry.shape[2]}"
    return f"{text}; {remark}" if remark else text
