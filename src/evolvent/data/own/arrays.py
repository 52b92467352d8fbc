"""Arrays in memory as data that trainings take: images, images with masks, or points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent._core.errors import DataError, shortened
from evolvent.data.image_set import ImageData, ImageSet
from evolvent.data.own.parts import (
    check_names,
    class_numbers,
    held_out_rows,
    refuse_second_test,
    refuse_unknown_test,
    warn_of_data,
)
from evolvent.data.own.point_set import PointData

IGNORE = 255
_FEW = 4  # classes for each that occurs in masks, above which labels are probably grey levels
_USUAL_CHANNELS = (1, 3)
LARGEST = float(np.finfo(np.float32).max)


def from_arrays(
    x: Any,
    y: Any,
    x_test: Any = None,
    y_test: Any = None,
    *,
    classes: Sequence[str] | None = None,
    test: float | None = None,
    columns: Sequence[str] | None = None,
    name: str = "arrays",
) -> ImageData | PointData:
    """Your own arrays or tensors as data for trainings.

    Args:
        x: images, uint8 or floating-point numbers from 0 to 1, of shape (N, H, W), (N, H, W, C) or (N, C, H, W); or
            points, numbers of shape (N, d).
        y: a class for each row, numbers or words; or a class for each pixel, whole numbers (N, H, W) with 255 for none.
        x_test, y_test: the test part; without, a stratified share of the rows becomes it.
        classes: names of the classes; then labels are indices into them.
        test: the share of test rows, 0.2 unless given.
        columns: names of the features of points.
        name: what reports call the data.

    >>> digits = from_arrays(np.zeros((10, 8, 6), np.uint8), ["even", "odd"] * 5)
    >>> digits.train.shape, len(digits.test), digits.classes
    ((1, 8, 6), 2, ('even', 'odd'))
    """
    if (x_test is None) != (y_test is None):
        raise DataError(f"{name}: give both x_test and y_test, or neither.")
    parts = [(as_array(x), as_array(y))]
    if x_test is not None:
        parts.append((as_array(x_test), as_array(y_test)))
    return from_parts(parts, classes=classes, test=test, columns=columns, name=name)


def from_parts(
    parts: list[tuple[np.ndarray, np.ndarray]],
    *,
    classes: Sequence[str] | None = None,
    test: float | None = None,
    columns: Sequence[str] | None = None,
    name: str,
    channels_first: bool = False,
) -> ImageData | PointData:
    """What :func:`from_arrays` does with a training part and perhaps a test part.

    Args:
        parts: inputs and labels of each.
        channels_first: whether images are known to be (N, C, H, W); else their shape decides.
    """
    check_names("classes", classes)
    check_names("columns", columns)
    if len(parts) == 2:
        refuse_second_test(test, name)
    for part, (rows, labels) in zip(("x", "x_test"), parts, strict=False):
        if rows.ndim < 2 or labels.ndim == 0 or len(rows) != len(labels):
            given = f"{rows.shape} and {labels.shape}"
            raise DataError(f"{name}: {part} must have as many rows as its labels, got arrays of shape {given}.")
        if len(rows) == 0:
            raise DataError(f"{name}: {part} is empty. Give at least one row.")
    if parts[0][0].ndim == 2:
        return _points(parts, classes, test, columns, name)
    return _images(parts, [pixels(x, name, channels_first) for x, _ in parts], classes, test, name)


def as_array(values: Any) -> np.ndarray:
    """Arrays, tensors and nested lists as arrays of numbers or words."""
    for part in values if isinstance(values, (list, tuple)) else (values,):
        if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
            count = np.ma.count_masked(part)
            raise DataError(f"{count:,} of {part.size:,} values are masked. Fill them, or leave out their rows.")
    try:
        array = _of_tensor(values) if isinstance(values, Tensor) else np.asarray(values)
    except ValueError:
        raise DataError("the rows of an array must have one shape, got some of different lengths.") from None
    if array.dtype.kind == "O":
        array = _of_objects(array)
    if array.dtype.kind not in "iubfU":
        raise DataError(f"arrays of numbers or words are expected, got {array.dtype} {array.shape}.")
    return array


def _of_objects(array: np.ndarray) -> np.ndarray:
    """Words or numbers that are kept as objects, as tables of pandas keep them."""
    cells = list(array.flat)
    words = any(isinstance(cell, str) for cell in cells)
    kind = str if words else (Real, np.bool_)
    odd = next((k for k, cell in enumerate(cells) if not isinstance(cell, kind)), None)
    if odd is None:
        return array.astype(str) if words else np.array(array.tolist())
    if not any(isinstance(cell, kind) for cell in cells):
        return array
    found, row = shortened(repr(cells[odd]), 40), odd * len(array) // len(cells)
    raise DataError(
        f"row {row} of {len(array):,} has {found} among {'words' if words else 'numbers'}. If it stands for a missing "
        "value, fill it or leave out the row; else write all values in one way."
    )


def _of_tensor(values: Tensor) -> np.ndarray:
    if values.layout is not torch.strided:
        raise DataError(f"dense tensors are expected, got {values.layout} {tuple(values.shape)}. Use to_dense() first.")
    values = values.detach().cpu().resolve_conj()
    try:
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # NumPy has no bfloat16
    except TypeError:
        found = str(values.dtype).removeprefix("torch.")
        raise DataError(f"tensors of numbers that NumPy has are expected, got {found}. Use float() first.") from None


def pixels(images: np.ndarray, what: str, channels_first: bool = False) -> Tensor:
    """Images of one of the accepted forms as uint8 (N, C, H, W)."""
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and not channels_first and channels_last(images.shape[1:]):
        images = images.transpose(0, 3, 1, 2)
    if images.ndim != 4 or 0 in images.shape:
        raise DataError(
            f"{what}: images of shape (N, H, W), (N, H, W, C) or (N, C, H, W) are expected, found {images.shape}."
        )
    return torch.from_numpy(np.require(_bytes(images, what), requirements=["C", "W"]))


def channels_last(shape: tuple[int, ...]) -> bool:
    """Whether an image's last axis is that of the channels: it has the usual number of them, or else is the shorter."""
    first, last = shape[0], shape[2]
    if (first in _USUAL_CHANNELS) != (last in _USUAL_CHANNELS):
        return last in _USUAL_CHANNELS
    return last < first


def _bytes(images: np.ndarray, what: str) -> np.ndarray:
    if images.dtype == np.uint8:
        return images
    if images.dtype.kind in "fb" and images.size and images.min() >= 0 and images.max() <= 1:
        return np.rint(255 * images).astype(np.uint8)
    if images.dtype.kind in "iu" and images.size and images.min() >= 0 and images.max() <= 255:
        return images.astype(np.uint8)
    found = f"{images.dtype}"
    if images.dtype.kind in "iubf" and images.size:
        found += f" from {images.min():g} to {images.max():g}"
    raise DataError(
        f"{what}: bytes from 0 to 255, or floating-point numbers from 0 to 1, are expected as pixels, found {found}."
    )


def _images(
    parts: list[tuple[np.ndarray, np.ndarray]],
    images: list[Tensor],
    classes: Sequence[str] | None,
    test: float | None,
    name: str,
) -> ImageData:
    if any(part.shape[1:] != images[0].shape[1:] for part in images):
        raise DataError(
            f"{name}: training images are {tuple(images[0].shape[1:])}, test images {tuple(images[1].shape[1:])}; both "
            "must have one shape."
        )
    if parts[0][1].ndim == 3:
        sets = masked_sets(list(zip(images, (y for _, y in parts), strict=True)), classes, name)
    else:
        labels, names = class_numbers([y for _, y in parts], classes, name)
        sets = [ImageSet(x, y, names) for x, y in zip(images, labels, strict=True)]
    return image_data(name, sets, test, "arrays in memory")


def masked_sets(parts: Sequence[tuple[Tensor, np.ndarray]], classes: Sequence[str] | None, what: str) -> list[ImageSet]:
    """Images with a label for each pixel.

    Masks of 0 and 255 alone, as drawing programs write them, are background and foreground.
    """
    for images, masks in parts:
        if masks.dtype.kind not in "iub" or masks.shape != (len(images), *images.shape[2:]):
            wanted = (len(images), *images.shape[2:])
            raise DataError(f"{what}: masks of whole numbers {wanted} are expected, found {masks.dtype} {masks.shape}.")
    values = np.unique(np.concatenate([np.unique(masks) for _, masks in parts]))
    if values.min() < 0 or values.max() > IGNORE:
        found = f"{values.min()} ... {values.max()}"
        raise DataError(f"{what}: masks have labels 0 ... 254, and 255 for none, found {found}.")
    drawn = classes is None and values.tolist() == [0, IGNORE]
    known = values[values != IGNORE]
    if known.size == 0:
        raise DataError(f"{what}: no pixel has a class; 255 stands for none.")
    count = 2 if drawn else max(2, int(known.max()) + 1)
    if classes is None and count > _FEW * known.size:
        warn_of_data(
            f"{what}: masks have labels up to {count - 1}, so {count} classes, but {known.size} occur. If they "
            "are grey levels of a drawing, number them 0, 1, 2, ...; if not, name the classes: in a folder by "
            "classes.txt, in an archive by the array classes."
        )
    names = tuple(map(str, classes)) if classes else ("background", "foreground") if drawn else numbered(count)
    if count > len(names):
        raise DataError(f"{what}: {len(names)} classes are named, but masks have labels up to {count - 1}.")
    return [
        ImageSet(images, torch.from_numpy(_labels(masks == IGNORE if drawn else masks)), names, IGNORE)
        for images, masks in parts
    ]


def _labels(masks: np.ndarray) -> np.ndarray:
    """A copy as bytes, whatever the layout of the array."""
    return np.array(masks, dtype=np.uint8, order="C")


def numbered(count: int) -> tuple[str, ...]:
    """Names of classes that have none."""
    return tuple(map(str, range(count)))


def image_data(name: str, sets: Sequence[ImageSet], test: float | None, source: str, **more: Any) -> ImageData:
    """A training part with a test part, which is taken from it if it is not given."""
    train, drawn = sets[0], ""
    if len(sets) == 1:
        strata = torch.zeros(len(train), dtype=torch.int64) if train.has_masks else train.labels
        held, rest = held_out_rows(strata, test, name)
        sets = train.subset(rest), train.subset(held)
        drawn = f", {len(held) / len(train):.0%} of them drawn for testing"
    refuse_unknown_test(sets[0].class_counts(), sets[1].class_counts(), train.classes, name)
    text = f"{source}, {len(sets[0]):,} / {len(sets[1]):,} images{drawn}"
    return ImageData(name, sets[0], sets[1], text, **more)


def _points(
    parts: list[tuple[np.ndarray, np.ndarray]],
    classes: Sequence[str] | None,
    test: float | None,
    columns: Sequence[str] | None,
    name: str,
) -> PointData:
    width = parts[0][0].shape[1]
    for x, _ in parts:
        if x.dtype.kind not in "iubf" or x.shape[1:] != (width,) or not (abs(x) <= LARGEST).all():
            found = f"{x.dtype} {x.shape}"
            raise DataError(f"{name}: points must be rows of {width} finite numbers in float32, found {found}.")
    labels, names = class_numbers([y for _, y in parts], classes, name)
    tensors = [(torch.from_numpy(x.astype(np.float32)), y) for (x, _), y in zip(parts, labels, strict=True)]
    named = tuple(columns) if columns else tuple(f"x{k}" for k in range(width))
    if len(tensors) == 1:
        (x, y), (held, rest) = tensors[0], held_out_rows(labels[0], test, name)
        tensors = [(x[rest], y[rest]), (x[held], y[held])]
    found = PointData(name, tensors[0], tensors[1], names, named, "")
    refuse_unknown_test(*found.class_counts(), names, name)
    return replace(found, source=f"arrays in memory, {len(found.train[1]):,} / {len(found.test[1]):,} points")
