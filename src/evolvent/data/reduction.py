"""Smaller images and masks, for sets whose originals are larger than a network is to see."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor
from torch.nn import functional

from evolvent._core.errors import ConfigError
from evolvent.data.image_set import ImageData, ImageSet


def mean_of_squares(
    images: Tensor,  # uint8 (N, C, H, W)
    factor: int,
    chunk: int = 256,
) -> Tensor:
    """Mean over squares of ``factor`` pixels a side, rounded; incomplete squares at the border are left out.

    Shape: uint8 (N, C, H, W) -> uint8 (N, C, H // factor, W // factor).
    """
    height, width = images.shape[-2] // factor, images.shape[-1] // factor
    small = images.new_empty(*images.shape[:2], height, width)
    for part, out in zip(images.split(chunk), small.split(chunk), strict=True):
        out.copy_(functional.avg_pool2d(part.float(), factor).round_())
    return small


def majority_of_squares(
    labels: Tensor,  # (N, H, W)
    factor: int,
) -> Tensor:
    """The label that most pixels of each square have; of several, the lowest.

    Shape: (N, H, W) -> (N, H // factor, W // factor).

    >>> import torch
    >>> majority_of_squares(torch.tensor([[[0, 1, 2, 2], [1, 1, 2, 0]]]), 2).tolist()
    [[[1, 2]]]
    """
    squares = labels.unfold(1, factor, factor).unfold(2, factor, factor).flatten(-2)
    return squares.mode(-1).values


def reduced(data: ImageData, factor: int) -> ImageData:
    """A set with its images, and masks if it has any, made smaller by a whole factor."""
    if factor == 1:
        return data
    if factor > min(data.train.shape[1:]):
        raise ConfigError(
            f"data.reduce is {factor}, but images of {data.name} are {data.train.shape[1:]}; reduce less."
        )
    val = None if data.val is None else _reduced(data.val, factor)
    source = f"{data.source}, reduced {factor} times"
    return ImageData(data.name, _reduced(data.train, factor), _reduced(data.test, factor), source, val)


def _reduced(images: ImageSet, factor: int) -> ImageSet:
    labels = majority_of_squares(images.labels, factor) if images.has_masks else images.labels
    return replace(images, images=mean_of_squares(images.images, factor), labels=labels)
