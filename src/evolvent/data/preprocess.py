"""Images before training: centred by the mean image, and reduced where they are larger than a network needs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from safetensors.torch import save as serialise
from torch import Tensor, nn
from torch.nn import functional

from evolvent._core.errors import ConfigError, ModelFileError
from evolvent._core.files import write_bytes
from evolvent._core.seals import tensor_seal
from evolvent.data.image_files import ImageFiles
from evolvent.data.image_set import ImageData, ImageSet
from evolvent.networks._files import read_tensors

Mean: TypeAlias = Literal["image", "colour"]

_FILE = "preprocess.safetensors"
_SAMPLE = 1000  # files that a mean colour is taken over


def per_pixel_mean(
    images: Tensor,  # uint8 (N, C, H, W)
    chunk: int = 4096,
) -> Tensor:
    r"""Mean image :math:`\frac{1}{255 N}\sum_i x_i`, summed in float64, returned as float32 (C, H, W)."""
    total = torch.zeros(images.shape[1:], dtype=torch.float64, device=images.device)
    for part in images.split(chunk):
        total += part.sum(0, dtype=torch.int64)
    return (total / (255.0 * max(len(images), 1))).float()


def mean_image(images: Tensor | ImageFiles, kind: Mean = "image") -> Tensor:
    """What training centres images by: their mean image, or the mean colour, which is the same at every pixel.

    The mean image does not turn or move with an image, so networks that commute with rotations or shifts are centred by
    the colour. Files are centred by the mean colour of a thousand of them, spread over all.

    Shape: uint8 (N, C, H, W) -> float32 (C, H, W), or (C, 1, 1) for a colour.
    """
    if isinstance(images, ImageFiles):
        rows = torch.linspace(0, len(images) - 1, min(_SAMPLE, len(images))).long()
        images, kind = images[rows], "colour"
    mean = per_pixel_mean(images)
    return mean if kind == "image" else mean.mean((1, 2), keepdim=True)


class Preprocess(nn.Module):
    r"""Bytes to centred numbers, :math:`x \mapsto x / 255 - \mu`, in the dtype of the mean image :math:`\mu`.

    Shape: (B, C, H, W) of numbers from 0 to 255, of any dtype -> (B, C, H, W); ``mean`` is (C, H, W) or broadcasts to
    it.
    """

    mean: Tensor

    def __init__(self, mean: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)

    def forward(self, batch: Tensor) -> Tensor:
        return batch.to(self.mean.dtype, copy=True).div_(255).sub_(self.mean)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``preprocess.safetensors`` beside a saved model, complete or not at all."""
        tensors = {"mean": self.mean.contiguous()}
        write_bytes(Path(folder) / _FILE, serialise(tensors, tensor_seal(tensors)))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Preprocess:
        """Read what :meth:`save` wrote."""
        path = Path(folder) / _FILE
        mean = read_tensors(path).get("mean")
        if mean is None or mean.ndim != 3 or not mean.is_floating_point():
            raise ModelFileError(f"{path} is not a mean image: it has no floating-point 'mean' (C, H, W).")
        return cls(mean)


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
    """The most frequent label of each square; of several, the lowest.

    Shape: (N, H, W) -> (N, H // factor, W // factor).

    >>> import torch
    >>> majority_of_squares(torch.tensor([[[0, 1, 2, 2], [1, 1, 2, 0]]]), 2).tolist()
    [[[1, 2]]]
    """
    squares = labels.unfold(1, factor, factor).unfold(2, factor, factor).flatten(-2)
    return squares.mode(-1).values


def reduced(data: ImageData, factor: int) -> ImageData:
    """A set with its images, and masks if it has any, reduced by an integer factor."""
    if factor == 1:
        return data
    if factor > min(data.train.shape[1:]):
        raise ConfigError(
            f"data.reduce is {factor}, but images of {data.name} are {data.train.shape[1:]}; choose a smaller factor."
        )
    val = None if data.val is None else _reduced(data.val, factor)
    source = f"{data.source}, reduced {factor} times"
    return replace(data, train=_reduced(data.train, factor), test=_reduced(data.test, factor), source=source, val=val)


def _reduced(images: ImageSet, factor: int) -> ImageSet:
    stored = images.images
    labels = majority_of_squares(images.labels, factor) if images.has_masks else images.labels
    small = stored.reduced(factor) if isinstance(stored, ImageFiles) else mean_of_squares(stored, factor)
    return replace(images, images=small, labels=labels)
