"""Archives of your own arrays: ``.npz`` files, read and written without pickle."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from evolvent._core.checks import check_path
from evolvent._core.errors import DataError, shortened
from evolvent._core.files import atomic_path
from evolvent.data.formats.npz import read_fields
from evolvent.data.image_set import ImageData, ImageSet
from evolvent.data.own.arrays import as_array, from_parts
from evolvent.data.own.parts import warn_of_data
from evolvent.data.own.point_set import PointData

_TRAIN = (("x", "y"), ("images", "labels"), ("x_train", "y_train"), ("train_images", "train_labels"))
_TEST = (("x_test", "y_test"), ("images_test", "labels_test"), ("test_images", "test_labels"))
_NAMES = ("classes", "columns")
_MARKS = ("channels_first", "name")
_MAGIC = b"PK"  # the first bytes of every zip file
_KNOWN = frozenset(name for pair in (*_TRAIN, *_TEST) for name in pair) | {*_NAMES, *_MARKS}


def from_npz(path: str | os.PathLike[str], *, test: float | None = None) -> ImageData | PointData:
    """Your own archive as data for trainings.

    Args:
        path: an ``.npz`` file with ``x`` and ``y``, or ``images`` and ``labels``, in the forms of :func:`from_arrays`;
            optionally ``x_test`` and ``y_test``, and ``classes``, the names of the classes. ``channels_first`` is true
            if images are (N, C, H, W) whatever their shape, and ``name`` is what reports call the data.
        test: the share of rows for testing, if the archive has no test part; 0.2 unless given.
    """
    path = check_path(path, "ev.data.from_npz", "an archive").absolute()
    if not path.is_file():
        raise DataError(f"there is no archive {path}. Write one with numpy.savez({path.name!r}, x=..., y=...).")
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise DataError(f"{path} is no .npz archive. Write one with numpy.savez({path.name!r}, x=..., y=...).")
    fields = read_fields(path, _KNOWN)
    train, held = _pair(fields, _TRAIN), _pair(fields, _TEST)
    if not train:
        raise DataError(f"{path} must have the arrays x and y, or images and labels; it has {_listed(path)}.")
    if not held and (alone := [name for pair in _TEST for name in pair if name in fields]):
        raise DataError(f"{path} has {alone[0]} without its other half. Give both x_test and y_test, or neither.")
    title = _title(fields)
    marks = ("channels_first", "name") if title else ("channels_first",)
    if unused := sorted(set(_stored(path)) - {*train, *held, *_NAMES, *marks}):
        warn_of_data(
            f"{path} has arrays that are not used: {shortened(', '.join(unused), 60)}. Used are "
            f"{', '.join(train + held)}; there may be x, y, x_test, y_test, classes and columns."
        )
    names = {key: fields[key].astype(str).tolist() for key in _NAMES if key in fields}
    parts = [(as_array(fields[x]), as_array(fields[y])) for x, y in filter(None, (train, held))]
    first = _channels_first(fields, path)
    found = as_archive(path, from_parts(parts, test=test, name=title or path.stem, channels_first=first, **names))
    return found if test is None else replace(found, section={**found.section, "test": test})


def as_archive(path: Path, data: ImageData | PointData) -> ImageData | PointData:
    """Data of arrays in memory as those of the archive that holds them."""
    source = data.source.replace("arrays in memory", f"{path.name} in {path.parent}")
    return replace(data, section={"npz": str(path)}, source=source)


def _channels_first(fields: dict[str, np.ndarray], path: Path) -> bool:
    mark = fields.get("channels_first", np.array(False))
    if mark.shape != () or mark.dtype.kind not in "biu" or mark not in (0, 1):
        raise DataError(f"{path}: channels_first must be true or false, got {mark.dtype} of shape {mark.shape}.")
    return bool(mark)


def _title(fields: dict[str, np.ndarray]) -> str:
    """What the archive says that reports call the data; empty if it does not."""
    stored = fields.get("name")
    return str(stored) if stored is not None and stored.shape == () and stored.dtype.kind == "U" else ""


def write_npz(path: str | os.PathLike[str], data: ImageData | PointData) -> None:
    """Write data as an archive that :func:`from_npz` reads back, complete or not at all."""
    if isinstance(data, PointData):
        parts = [[part.numpy() for part in pair] for pair in (data.train, data.test)]
        names = {"columns": np.array(data.columns)}
    else:
        parts = [_columns(part) for part in (data.train, data.test)]
        names = {"channels_first": np.array(True)}
    names["name"] = np.array(data.name)
    fields = dict(zip(("x", "y", "x_test", "y_test"), (column for part in parts for column in part), strict=True))
    with atomic_path(Path(path)) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, classes=np.array(data.classes), **fields, **names)


def _columns(images: ImageSet) -> list[np.ndarray]:
    return [images.tensor.cpu().numpy(), images.labels.cpu().numpy()]


def _pair(fields: dict[str, np.ndarray], names: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The names of the first pair that is there, if one is."""
    return next(((x, y) for x, y in names if x in fields and y in fields), ())


def _listed(path: Path) -> str:
    return ", ".join(_stored(path)[:8]) or "none"


def _stored(path: Path) -> list[str]:
    """Names of the arrays in an archive."""
    with np.load(path, allow_pickle=False) as archive:
        return list(archive.files)
