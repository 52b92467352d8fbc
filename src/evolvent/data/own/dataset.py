"""A PyTorch data set as data that trainings take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from evolvent._core.errors import DataError
from evolvent.data.image_set import ImageData
from evolvent.data.own.arrays import as_array, channels_last, from_parts
from evolvent.data.own.parts import check_size
from evolvent.data.own.point_set import PointData
from evolvent.data.picture_readers import MODES, picture_channels


def from_dataset(
    train: Any,
    test: Any = None,
    *,
    classes: Sequence[str] | None = None,
    share: float | None = None,
    resize: tuple[int, int] | None = None,
    name: str | None = None,
) -> ImageData | PointData:
    """Any map-style ``torch.utils.data.Dataset`` whose items are (input, label), read completely into memory.

    Args:
        train: inputs may be PIL images, arrays or tensors, as :func:`from_arrays` takes them, but one at a time.
        test: the test part; without, a stratified share of ``train``.
        classes: names of the classes; else the attribute ``classes`` of the data set, if it has one.
        share: of the rows that become the test part, 0.2 unless given.
        resize: height and width that images of unequal size are resized to.
        name: what reports call the data; the name of the data set's class unless given.

    >>> from torch.utils.data import TensorDataset
    >>> found = from_dataset(TensorDataset(torch.rand(10, 1, 6, 8), torch.arange(10) % 2))
    >>> found.train.shape, len(found.train)
    ((1, 6, 8), 8)
    """
    title, size = name or type(train).__name__, check_size(resize)
    parts = [_stacked(part, size, title) for part in ((train,) if test is None else (train, test))]
    known = classes if classes is not None else getattr(train, "classes", None)
    return from_parts(parts, classes=known, test=share, name=title, channels_first=size is not None)


def _stacked(items: Any, resize: tuple[int, int] | None, what: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        count = len(items)
    except TypeError:
        raise DataError(f"{what} has no length; give a data set with __len__ and __getitem__.") from None
    if not hasattr(items, "__getitem__"):
        raise DataError(f"{what} gives no single items; give a data set with __len__ and __getitem__, not its loader.")
    if count == 0:
        raise DataError(f"{what} is empty. Give at least one item.")
    inputs, labels = [], []
    for row in range(count):
        item = items[row]
        if not isinstance(item, (tuple, list)) or len(item) < 2:
            raise DataError(f"{what}: item {row} must be a pair (input, label), got {type(item).__name__}.")
        inputs.append(_resized(_pixels_of(item[0], f"{what}: item {row}"), resize))
        labels.append(as_array(item[1]))
        if inputs[-1].shape != inputs[0].shape:
            shapes = f"item {row} has shape {inputs[-1].shape}, item 0 {inputs[0].shape}"
            raise DataError(f"{what}: {shapes}. Give resize=(height, width), and images that are all grey or all RGB.")
    return np.stack(inputs), np.stack(labels)


def _pixels_of(value: Any, what: str) -> np.ndarray:
    if hasattr(value, "convert"):  # a PIL image
        channels = picture_channels(value, what)
        pixels = np.array(value.convert(MODES[channels]))
        return pixels if channels == 1 else pixels.transpose(2, 0, 1)
    return as_array(value)


def _resized(image: np.ndarray, size: tuple[int, int] | None) -> np.ndarray:
    """An image of shape (H, W), (H, W, C) or (C, H, W) in another size, (C, height, width); booleans become numbers."""
    if size is None or not _is_image(image):
        return image
    planes = torch.from_numpy(np.ascontiguousarray(image, dtype=np.float64))  # of any byte order and layout
    last = image.ndim == 3 and channels_last(image.shape)
    planes = planes.permute(2, 0, 1) if last else planes.reshape(-1, *image.shape[-2:])
    small = torch.nn.functional.interpolate(planes[None], size, mode="bilinear", antialias=True)[0]
    small = small.clamp(planes.min(), planes.max())  # which rounding may pass
    if image.dtype.kind == "b":
        return small.numpy()
    return (small.round() if image.dtype.kind in "iu" else small).numpy().astype(image.dtype)


def _is_image(array: np.ndarray) -> bool:
    return array.ndim in (2, 3) and array.size > 0 and array.dtype.kind in "iubf"
