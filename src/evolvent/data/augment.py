r"""Preprocessing and augmentation of whole batches, on any device and without worker processes.

The pipeline of Bohn et al. 2021, section 4.6: subtract the per-pixel mean of the training images, pad with zeros,
crop at random, flip at random. Zeros are added after the subtraction, so the border has the value of the mean image.
Exposure, which they do not vary, is changed before the subtraction, as light is.
The draw of a sample is a function of (seed, epoch, index) alone, whatever else is in its batch. So a mask, handed to
the same functions as its image, is moved as the image is.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from evolvent._core import files, randomness
from evolvent._core.errors import ModelFileError
from evolvent._core.randomness import Stream, key

_FILE = "preprocess.safetensors"


def per_pixel_mean(
    images: Tensor,  # uint8 (N, C, H, W)
    chunk: int = 4096,
) -> Tensor:
    r"""Mean image :math:`\frac{1}{255 N}\sum_i x_i`, summed in float64, returned as float32 (C, H, W)."""
    total = torch.zeros(images.shape[1:], dtype=torch.float64, device=images.device)
    for part in images.split(chunk):
        total += part.sum(0, dtype=torch.int64)
    return (total / (255.0 * max(len(images), 1))).float()


class Preprocess(nn.Module):
    r"""Bytes to centred numbers, :math:`x \mapsto x / 255 - \mu`, in the dtype of the mean image :math:`\mu`.

    Shape: (B, C, H, W) of numbers from 0 to 255, uint8 or others -> (B, C, H, W); ``mean`` is (C, H, W) or broadcasts
    to it.
    """

    mean: Tensor

    def __init__(self, mean: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)

    def forward(self, batch: Tensor) -> Tensor:
        return batch.to(self.mean.dtype, copy=True).div_(255).sub_(self.mean)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``preprocess.safetensors`` beside a saved model, whole or not at all."""
        with files.atomic_path(Path(folder) / _FILE) as draft:
            save_file({"mean": self.mean.contiguous()}, draft)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Preprocess:
        """Read what :meth:`save` wrote."""
        path = Path(folder) / _FILE
        try:
            return cls(load_file(path)["mean"])
        except (OSError, KeyError, SafetensorError) as error:
            raise ModelFileError(f"{path} is missing, truncated or foreign: {error}.") from None


def random_crop(
    batch: Tensor,  # (B, C, H, W)
    pad: int,
    index: Tensor,  # (B,)
    seed: int,
    epoch: int,
    fill: float = 0,
) -> Tensor:
    r"""Pad each image with ``pad`` zeros on every side and cut out a window of the old size at a random place.

    Both offsets are uniform on :math:`0 \dots 2\,\mathrm{pad}` and depend on (seed, epoch, index) alone. ``fill`` takes
    the place of zero: in a mask, the label of pixels without a class.

    Shape: (B, C, H, W) -> (B, C, H, W).
    """
    if pad == 0:
        return batch
    rows = randomness.integers(index, 2 * pad + 1, *key(Stream.CROP_ROW, seed, epoch))
    columns = randomness.integers(index, 2 * pad + 1, *key(Stream.CROP_COLUMN, seed, epoch))
    return _windows(functional.pad(batch, (pad, pad, pad, pad), value=fill), batch.shape, rows, columns)


def _windows(padded: Tensor, shape: torch.Size, rows: Tensor, columns: Tensor) -> Tensor:
    """Window of size ``shape[2:]`` of each image, its corner at (rows, columns).

    A view holds the window that starts at each entry of the flattened batch (overlapping, nothing is copied); one
    indexing operation then takes the B x C wanted ones. Of seven ways measured this is the fastest or next to it at
    28 x 28, 32 x 32 and 96 x 96.
    """
    (count, channels, height, width), (tall, wide) = shape, padded.shape[2:]
    starts = padded.numel() - (height - 1) * wide - width + 1
    windows = padded.contiguous().as_strided((starts, height, width), (1, wide, 1))
    plane = torch.arange(count * channels, device=padded.device).view(count, channels) * (tall * wide)
    return windows[plane + (rows * wide + columns)[:, None]]


def random_flip(
    batch: Tensor,  # (B, C, H, W)
    index: Tensor,  # (B,)
    seed: int,
    epoch: int,
) -> Tensor:
    """Mirror each image left to right with probability one half, as (seed, epoch, index) decides.

    Shape: (B, C, H, W) -> (B, C, H, W).
    """
    mirrored = randomness.uniform(index, *key(Stream.FLIP, seed, epoch)) < 0.5
    return torch.where(mirrored[:, None, None, None], batch.flip(-1), batch)


def random_exposure(
    batch: Tensor,  # uint8 (B, C, H, W)
    stops: float,
    index: Tensor,  # (B,)
    seed: int,
    epoch: int,
) -> Tensor:
    r"""Each image as a camera sees it with more or less light, :math:`x \mapsto \min(2^e x, 255)`.

    :math:`e` is uniform between ``-stops`` and ``stops`` and depends on (seed, epoch, index) alone.

    Shape: (B, C, H, W) -> the same, not rounded, unless ``stops`` is 0.
    """
    if stops == 0:
        return batch
    gain = torch.exp2(stops * (2 * randomness.uniform(index, *key(Stream.EXPOSURE, seed, epoch)) - 1))
    return (batch * gain[:, None, None, None]).clamp_(max=255)
