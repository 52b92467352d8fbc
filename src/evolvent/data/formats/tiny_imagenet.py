"""The folder ``tiny-imagenet-200``: JPEGs of 64 x 64, 200 classes named by WordNet identifiers.

``wnids.txt`` lists the identifiers, ``words.txt`` gives their names, ``train/<wnid>/images/*.JPEG`` are the training
images, ``val/images`` with ``val/val_annotations.txt`` the labelled test images (those of ``test/`` have no labels).
A label is the place of its identifier in the sorted list.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats import jpeg
from evolvent.data.formats.arrays import Arrays, reading

_SIDE = 64
Labelled = list[tuple[Path, int]]


def read(files: Sequence[Path]) -> Arrays:
    """``wnids.txt``, ``words.txt``, ``train``, ``val/val_annotations.txt``, in this order."""
    wnids, words, train, annotations = files
    identifiers = sorted(_lines(wnids))
    labels = {identifier: label for label, identifier in enumerate(identifiers)}
    names = dict(line.split("\t", 1) for line in _lines(words) if "\t" in line)
    classes = tuple(names.get(identifier, identifier).strip() for identifier in identifiers)
    return Arrays(*_pixels(_train(train, labels)), *_pixels(_validation(annotations, labels)), classes)


def _train(folder: Path, labels: dict[str, int]) -> Labelled:
    found = [(path, label) for name, label in labels.items() for path in sorted(folder.glob(f"{name}/images/*.JPEG"))]
    empty = set(labels.values()) - {label for _, label in found}
    if empty:
        raise DataError(f"{folder} has no images of {len(empty)} of its {len(labels)} classes.")
    return found


def _validation(annotations: Path, labels: dict[str, int]) -> Labelled:
    """Each line: file name, identifier, bounding box."""
    found = []
    for number, line in enumerate(_lines(annotations), start=1):
        name, identifier, *_ = [*line.split("\t"), "", ""]
        if identifier not in labels:
            raise DataError(f"{annotations}, line {number}: {identifier!r} is not in wnids.txt.")
        found.append((annotations.parent / "images" / Path(name).name, labels[identifier]))
    return found


def _pixels(images: Labelled) -> tuple[np.ndarray, np.ndarray]:
    content = ((path, path.name, _bytes(path)) for path, _ in images)
    return jpeg.decode(content, len(images), _SIDE), np.array([label for _, label in images], dtype=np.int64)


def _lines(path: Path) -> list[str]:
    with reading(path):
        return path.read_text(encoding="utf-8").splitlines()


def _bytes(path: Path) -> bytes:
    with reading(path):
        return path.read_bytes()
