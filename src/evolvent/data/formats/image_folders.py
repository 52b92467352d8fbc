"""Folders of image files: Tiny ImageNet, one folder for each class, and images with masks.

``tiny-imagenet-200`` has JPEGs of 64 x 64 in 200 classes named by WordNet identifiers. ``wnids.txt`` lists the
identifiers, ``words.txt`` gives their names, ``train/<wnid>/images/*.JPEG`` are the training images, ``val/images``
with ``val/val_annotations.txt`` the labelled test images (those of ``test/`` have no labels). A label is the position
of its identifier in the sorted list.

In sets with a folder for each class, a label is the position of its folder's name in the sorted list. Their images stay
in their files.

A mask is a PNG whose pixels are labels, with the name of its image. Both are reduced as they are read: images to the
means, masks to the majorities of equal squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import Arrays, parsing
from evolvent.data.formats.image_files import decode_jpegs, read_pixels
from evolvent.data.image_files import class_folders
from evolvent.data.preprocess import majority_of_squares, mean_of_squares

_TINY_SIDE = 64
_SUFFIXES = (".jpg", ".jpeg", ".png")
Labelled = list[tuple[Path, int]]


def read_tiny_imagenet(files: Sequence[Path]) -> Arrays:
    """``wnids.txt``, ``words.txt``, ``train``, ``val/val_annotations.txt``, in this order."""
    wnids, words, train, annotations = files
    identifiers = sorted(_lines(wnids))
    labels = {identifier: label for label, identifier in enumerate(identifiers)}
    names = dict(line.split("\t", 1) for line in _lines(words) if "\t" in line)
    classes = tuple(names.get(identifier, identifier).strip() for identifier in identifiers)
    return Arrays(*_decoded(_training_images(train, labels)), *_decoded(_test_images(annotations, labels)), classes)


def _training_images(folder: Path, labels: dict[str, int]) -> Labelled:
    found = [(path, label) for name, label in labels.items() for path in sorted(folder.glob(f"{name}/images/*.JPEG"))]
    empty = set(labels.values()) - {label for _, label in found}
    if empty:
        raise DataError(f"{folder} has no images of {len(empty)} of its {len(labels)} classes.")
    return found


def _test_images(annotations: Path, labels: dict[str, int]) -> Labelled:
    """Each line: file name, identifier, bounding box."""
    found = []
    for number, line in enumerate(_lines(annotations), start=1):
        name, identifier, *_ = [*line.split("\t"), "", ""]
        if identifier not in labels:
            raise DataError(f"{annotations}, line {number}: {identifier[:40]!r} is not in wnids.txt.")
        found.append((annotations.parent / "images" / Path(name).name, labels[identifier]))
    return found


def _decoded(images: Labelled) -> tuple[np.ndarray, np.ndarray]:
    content = ((path, path.name, _bytes(path)) for path, _ in images)
    return decode_jpegs(content, len(images), _TINY_SIDE), np.array([label for _, label in images], dtype=np.int64)


def _lines(path: Path) -> list[str]:
    with parsing(path):
        return path.read_text(encoding="utf-8").splitlines()


def _bytes(path: Path) -> bytes:
    with parsing(path):
        return path.read_bytes()


def read_class_folders(folders: Sequence[Path], side: int) -> Arrays:
    """``train`` and ``val``, each with a folder for each class; nothing is decoded yet."""
    train, test = folders
    classes, others = _folder_names(train), _folder_names(test)
    if classes != others:
        unlike = sorted(set(classes) ^ set(others))
        raise DataError(
            f"{train} and {test} must have a folder for each class, of equal names; {len(unlike)} are in one of them "
            f"alone, such as {unlike[0]!r}."
        )
    return Arrays(*class_folders(train, classes, side), *class_folders(test, classes, side), tuple(classes))


def _folder_names(folder: Path) -> list[str]:
    with parsing(folder):
        return sorted(path.name for path in folder.iterdir() if path.is_dir())


def read_masks(folders: Sequence[Path], height: int, width: int) -> Arrays:
    """Training images and masks, then validation ones if there are six folders, then test ones."""
    pairs = list(zip(folders[::2], folders[1::2], strict=True))
    names = ("train", "val", "test") if len(pairs) == 3 else ("train", "test")
    found = {}
    for name, (images, masks) in zip(names, pairs, strict=True):
        found[f"x_{name}"], found[f"y_{name}"] = _masked_part(images, masks, height, width)
    return Arrays(**found)


def _masked_part(images: Path, masks: Path, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The images that have masks, in the order of their names; some of a set may have none."""
    known = {path.stem: path for path in masks.glob("*.png")}
    pairs = [(p, known[p.stem]) for p in sorted(images.iterdir()) if p.suffix.lower() in _SUFFIXES and p.stem in known]
    if not pairs:
        raise DataError(f"{images} has no images with a mask in {masks}; a mask is a .png with the name of its image.")
    x, y = np.empty((len(pairs), 3, height, width), np.uint8), np.empty((len(pairs), height, width), np.uint8)
    for row, (image, mask) in enumerate(pairs):
        x[row], y[row] = _image(image, height, width), _mask(mask, height, width)
    return x, y


def _image(path: Path, height: int, width: int) -> np.ndarray:
    pixels = torch.from_numpy(read_pixels(path, "RGB")).permute(2, 0, 1)[None]
    return mean_of_squares(pixels, _factor(path, pixels.shape[2:], height, width))[0].numpy()


def _mask(path: Path, height: int, width: int) -> np.ndarray:
    labels = torch.from_numpy(read_pixels(path, None))[None]
    if labels.ndim != 3:
        raise DataError(f"{path} is a colour image; a mask has one label for each pixel.")
    return majority_of_squares(labels, _factor(path, labels.shape[1:], height, width))[0].numpy()


def _factor(path: Path, size: Sequence[int], height: int, width: int) -> int:
    factor = size[0] // height
    if not factor or tuple(size) != (factor * height, factor * width):
        raise DataError(f"{path} is {size[1]} x {size[0]}, a multiple of {width} x {height} is expected.")
    return factor
