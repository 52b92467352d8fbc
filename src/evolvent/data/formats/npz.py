"""NumPy archives, recognised by their fields and read without pickle.

Images: ``x_train``, ``y_train``, ``x_test``, ``y_test``; x uint8 (N, H, W, C), (N, H, W) or (N, C, H, W), y integer
(N,) or (N, 1); optionally ``classes``. A field ``angle`` marks a set that was built by rotation.
Masks: the same with y integer (N, H, W); optionally ``x_val`` and ``y_val``.
Drawings: ``x`` uint8 (N, H, W), ``y`` integer (N,) and ``alphabet``, as many drawings of every character; the last
quarter of each character's drawers are test images; optionally ``characters``, the class names.
JPEGs: ``train_jpeg`` uint8, the files concatenated, ``train_offset`` where each begins and the last ends,
``y_train``; the same with ``val`` for ``test``; optionally ``words``, the class names.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import Arrays, parsing
from evolvent.data.formats.image_files import decode_jpegs, open_jpeg
from evolvent.data.layout import Layout

_IMAGE_FIELDS = frozenset({"x_train", "y_train", "x_test", "y_test"})
_DRAWING_FIELDS = frozenset({"x", "y", "alphabet"})
_JPEG_FIELDS = frozenset({"train_jpeg", "train_offset", "y_train", "val_jpeg", "val_offset", "y_val"})


def npz_layout(*names: str) -> Layout:
    """An archive of images and labels under one of these names."""
    return Layout("npz archive", (names,), read_images, accepts=holds_images)


def holds_images(path: Path) -> bool:
    """Whether the archive has the fields of an image set; a damaged one counts, so that reading it says why."""
    return has_fields(path, _IMAGE_FIELDS)


def holds_jpegs(path: Path) -> bool:
    """Whether the archive has the fields of a set of JPEGs; see :func:`holds_images`."""
    return has_fields(path, _JPEG_FIELDS)


def has_fields(path: Path, wanted: frozenset[str]) -> bool:
    """Whether the archive has these fields; a damaged one counts, so that reading it says why."""
    return _fields(path) >= wanted if zipfile.is_zipfile(path) else True


def holds_drawings(path: Path) -> bool:
    """Whether the archive has the fields of a set of drawn characters; see :func:`holds_images`."""
    return _fields(path) >= _DRAWING_FIELDS if zipfile.is_zipfile(path) else True


def read_images(files: Sequence[Path]) -> Arrays:
    """One archive of images and labels."""
    (path,) = files
    fields = read_fields(path, _IMAGE_FIELDS | {"classes"})
    remark = "rebuilt from MNIST by random rotation, not the original draw" if "angle" in _fields(path) else ""
    (x_train, y_train), (x_test, y_test) = (_part(path, fields, part) for part in ("train", "test"))
    return Arrays(x_train, y_train, x_test, y_test, _names(fields.get("classes")), remark)


def read_masks(files: Sequence[Path]) -> Arrays:
    """One archive of images and masks."""
    (path,) = files
    fields = read_fields(path, _IMAGE_FIELDS | {"x_val", "y_val"})
    parts = [part for part in ("train", "val", "test") if {f"x_{part}", f"y_{part}"} <= fields.keys()]
    found: dict[str, Any] = {f"x_{part}": _pixels(path, fields, part) for part in parts}
    found |= {f"y_{part}": _masks(path, fields, f"y_{part}") for part in parts}
    return Arrays(**found)


def read_drawings(files: Sequence[Path]) -> Arrays:
    """One archive of drawn characters."""
    (path,) = files
    fields = read_fields(path, _DRAWING_FIELDS | {"characters"})
    images, labels = _pixels(path, {"x_all": fields["x"]}, "all"), _labels(path, fields, "y")
    if len(images) != len(labels):
        raise DataError(f"{path}: there are {len(images):,} drawings but {len(labels):,} labels.")
    order = np.argsort(labels, kind="stable")
    images, labels = images[order], labels[order]
    sizes = np.unique(labels, return_counts=True)[1]
    place = np.concatenate([np.arange(size) for size in sizes]) if len(sizes) else labels
    train = place < np.repeat(sizes - sizes // 4, sizes)
    names = _names(fields.get("characters"))
    return Arrays(images[train], labels[train], images[~train], labels[~train], names)


def read_jpegs(files: Sequence[Path]) -> Arrays:
    """One archive of JPEGs and labels."""
    (path,) = files
    fields = read_fields(path, _JPEG_FIELDS | {"words"})
    train, test = (_decode(path, fields[f"{p}_jpeg"], fields[f"{p}_offset"]) for p in ("train", "val"))
    y_train, y_test = (_labels(path, fields, f"y_{p}") for p in ("train", "val"))
    return Arrays(train, y_train, test, y_test, _names(fields.get("words")))


def _fields(path: Path) -> set[str]:
    with parsing(path), zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy") for name in archive.namelist()}


def read_fields(path: Path, wanted: frozenset[str]) -> dict[str, np.ndarray]:
    """Those of the fields that the archive has, read without pickle."""
    with parsing(path), open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        return {field: archive[field] for field in archive.files if field in wanted}


def _part(path: Path, fields: dict[str, np.ndarray], part: str) -> tuple[np.ndarray, np.ndarray]:
    return _pixels(path, fields, part), _labels(path, fields, f"y_{part}")


def _pixels(path: Path, fields: dict[str, np.ndarray], part: str) -> np.ndarray:
    images = fields[f"x_{part}"]
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise DataError(f"{path}: 'x_{part}' must be uint8 (N, H, W[, C]), found {images.dtype} {images.shape}.")
    return _channels_first(images)


def _masks(path: Path, fields: dict[str, np.ndarray], field: str) -> np.ndarray:
    masks = fields[field]
    if masks.dtype.kind not in "iu" or masks.ndim != 3:
        raise DataError(f"{path}: {field!r} must be integer (N, H, W), found {masks.dtype} {masks.shape}.")
    return masks


def _channels_first(images: np.ndarray) -> np.ndarray:
    if images.ndim == 3:
        return images[:, None]
    if images.shape[1] in (1, 3) and images.shape[3] not in (1, 3):
        return images
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def _labels(path: Path, fields: dict[str, np.ndarray], field: str) -> np.ndarray:
    labels = fields[field]
    if labels.dtype.kind not in "iu" or labels.size != len(labels):
        raise DataError(f"{path}: {field!r} must contain one integer per image, found {labels.dtype} {labels.shape}.")
    return labels.reshape(-1).astype(np.int64)


def _names(field: np.ndarray | None) -> tuple[str, ...] | None:
    return None if field is None or field.dtype.kind != "U" else tuple(field.tolist())


def _decode(path: Path, content: np.ndarray, offset: np.ndarray) -> np.ndarray:
    if content.dtype != np.uint8 or offset.dtype.kind not in "iu" or offset.ndim != 1 or len(offset) < 2:
        raise DataError(
            f"{path}: JPEG bytes with at least two offsets are expected, "
            f"found {content.dtype} {content.shape} with {offset.dtype} {offset.shape}."
        )
    if offset[0] != 0 or offset[-1] != content.size or (np.diff(offset.astype(np.int64)) <= 0).any():
        raise DataError(
            f"{path}: the JPEG offsets must rise from 0 to {content.size:,}, found {offset[0]:,} ... {offset[-1]:,}."
        )
    side = open_jpeg(path, content[: offset[1]].tobytes()).width
    if side > 256:
        raise DataError(f"{path}: image 0 is {side} wide, at most 256 is expected.")
    return decode_jpegs(_images(path, content, offset), len(offset) - 1, side)


def _images(path: Path, content: np.ndarray, offset: np.ndarray) -> Iterator[tuple[Path, str, bytes]]:
    stored = content.tobytes()
    for row, (start, end) in enumerate(zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True)):
        yield path, f"image {row}", stored[start:end]
