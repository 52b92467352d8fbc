"""Images with labels, held whole in memory as bytes: the one form in which every data set is served."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from evolvent._core.errors import ShapeError


@dataclass(frozen=True)
class ImageSet:
    """Labelled images of one size.

    Shape: ``images`` uint8 (N, C, H, W); ``labels`` int64 (N,), indices into ``classes``.

    >>> images = ImageSet(torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]), ("even", "odd"))
    >>> len(images), len(images.subset(torch.tensor([0, 2])))
    (4, 2)
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4:
            raise ShapeError(f"images are uint8 of shape (N, C, H, W), got {_form(self.images)}.")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ShapeError(f"labels are int64 of shape ({len(self.images)},), got {_form(self.labels)}.")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        channels, height, width = self.images.shape[1:]
        return channels, height, width

    def subset(self, index: Tensor) -> ImageSet:
        """The images at the rows ``index``, in that order."""
        return ImageSet(self.images.index_select(0, index), self.labels.index_select(0, index), self.classes)

    def class_counts(self) -> tuple[int, ...]:
        """How many images each class has."""
        return tuple(torch.bincount(self.labels, minlength=len(self.classes)).tolist())


@dataclass(frozen=True)
class ImageData:
    """The training and test images of one named set; ``source`` says in words where they came from."""

    name: str
    train: ImageSet
    test: ImageSet
    source: str

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes


def _form(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
