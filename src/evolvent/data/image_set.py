"""Images with labels, as bytes in memory or in files: the form in which every data set is returned."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from evolvent._core.errors import DataError, ShapeError
from evolvent.data.image_files import ImageFiles
from evolvent.data.source import Source


@dataclass(frozen=True)
class ImageSet:
    """Labelled images of one size.

    ``ignore`` is the label of pixels without a class; a set has one if and only if it has a label for every pixel.

    Shape: ``images`` uint8 (N, C, H, W), a tensor or files that are decoded when they are asked for; ``labels`` int64
    (N,) or, for every pixel, uint8 (N, H, W), indices into ``classes``.

    >>> images = ImageSet(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]), ("even", "odd"))
    >>> len(images), len(images.subset(torch.tensor([0, 2])))
    (4, 2)
    """

    images: Tensor | ImageFiles
    labels: Tensor
    classes: tuple[str, ...]
    ignore: int | None = None

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise ShapeError(f"images must be uint8 of shape (N, C, H, W), got {_form(self.images)}.")
        count, _, height, width = self.images.shape
        dtype, shape = (torch.uint8, (count, height, width)) if self.has_masks else (torch.int64, (count,))
        if self.labels.dtype != dtype or self.labels.shape != shape:
            raise ShapeError(f"labels must be {_name(dtype)} of shape {shape}, got {_form(self.labels)}.")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    @property
    def has_masks(self) -> bool:
        """Whether every pixel has a label."""
        return self.ignore is not None

    @property
    def tensor(self) -> Tensor:
        """The images, where a tensor of all of them is needed."""
        if isinstance(self.images, ImageFiles):
            raise DataError(
                f"{len(self):,} images in {self.images.folder} are read file by file; this needs a set that is kept in "
                "memory."
            )
        return self.images

    def subset(self, index: Tensor) -> ImageSet:
        """The images at the rows ``index``, in that order."""
        stored = self.images
        images = stored.subset(index) if isinstance(stored, ImageFiles) else stored.index_select(0, index)
        return replace(self, images=images, labels=self.labels.index_select(0, index))

    def of_classes(self, first: int, count: int) -> ImageSet:
        """The images of consecutive classes, which are numbered from 0."""
        inside = ((self.labels >= first) & (self.labels < first + count)).nonzero()[:, 0]
        chosen = self.subset(inside)
        return replace(chosen, labels=chosen.labels - first, classes=self.classes[first : first + count])

    def class_counts(self) -> tuple[int, ...]:
        """Number of images, or of pixels if each has a label, in each class."""
        counts = torch.bincount(self.labels.flatten(), minlength=len(self.classes))
        return tuple(counts[: len(self.classes)].tolist())


class ImageBatch(NamedTuple):
    """Images uint8 (B, C, H, W), labels int64 (B,) or (B, H, W), their rows int64 (B,), and the epoch."""

    images: Tensor
    labels: Tensor
    rows: Tensor
    epoch: int


class ImageSource(Source):
    """The images of a set, row by row.

    >>> images = ImageSet(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]), ("even", "odd"))
    >>> ImageSource(images).take(torch.tensor([3, 0]), seed=0, epoch=0).labels
    tensor([1, 0])
    """

    def __init__(self, images: ImageSet) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: Tensor, seed: int, epoch: int) -> ImageBatch:
        rows = rows.to(self.images.images.device)
        labels = self.images.labels.index_select(0, rows).long()
        return ImageBatch(self.images.images.index_select(0, rows), labels, rows, epoch)


@dataclass(frozen=True)
class ImageData:
    """The training and test images of one set; ``source`` says where they came from.

    ``val`` contains the validation images of a set that is published with some, and ``section`` is what a recipe's
    ``data`` section says to read the set again; it is empty if there is nothing to read.
    """

    name: str
    train: ImageSet
    test: ImageSet
    source: str
    val: ImageSet | None = None
    section: Mapping[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change with any pixel, label or class name.

        Of images that stay in their files, the names and sizes of the files stand for the pixels.
        """
        digest = hashlib.sha256("\n".join(self.classes).encode())
        for part in (self.train, self.test, self.val):
            if part is not None:
                _add_images(digest, part.images)
                digest.update(part.labels.cpu().numpy().tobytes())
        return digest.hexdigest()[:16]


def _add_images(digest: Any, images: Tensor | ImageFiles) -> None:
    digest.update(str(tuple(images.shape)).encode())
    if isinstance(images, ImageFiles):
        sizes = ((name, (images.folder / name).stat().st_size) for name in images.names)
        digest.update("\n".join(f"{name} {size}" for name, size in sizes).encode())
    else:
        digest.update(images.cpu().numpy().tobytes())


def _form(tensor: Tensor | ImageFiles) -> str:
    return f"{_name(tensor.dtype)} of shape {tuple(tensor.shape)}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
