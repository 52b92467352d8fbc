"""Images that are known between their pixels: sums of Gaussian blobs, which are turned without interpolation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from evolvent._core.checks import check_positive, check_whole


@dataclass(frozen=True)
class Blobs:
    r"""Images :math:`f(x) = \sum_k a_k\, e^{-|x - z_k|^2 / 2 w_k^2}`, one sum for each channel of each image.

    Attributes:
        centres: :math:`z_k`, (N, C, K, 2), in pixels from the centre of the image: to the right, and up.
        widths: :math:`w_k`, (N, C, K), in pixels.
        heights: :math:`a_k`, (N, C, K).
    """

    centres: Tensor
    widths: Tensor
    heights: Tensor

    def at(self, points: Tensor) -> Tensor:
        """The values at points of the plane, (H, W, 2) to (N, C, H, W)."""
        offsets = points - self.centres[..., None, None, :]  # (N, C, K, H, W, 2)
        scaled = offsets.square().sum(-1) / (2 * self.widths[..., None, None] ** 2)
        return (self.heights[..., None, None] * torch.exp(-scaled)).sum(2)


def draw_blobs(count: int, channels: int, side: int, width: float = 4.0, seed: int = 0) -> Blobs:
    """Random blobs in the middle of images, five to a channel.

    Args:
        count, channels: how many images, and channels of each.
        side: pixels along the shorter side of an image; blobs are centred within an eighth of it.
        width: standard deviation of the narrowest blobs, in pixels; the widest have a quarter more.
        seed: of the draw.

    >>> draw_blobs(2, 3, 28).at(pixel_grid(28, 28)).shape
    torch.Size([2, 3, 28, 28])
    """
    check_whole(1, count=count, channels=channels, side=side)
    check_positive(width=width)
    draw = torch.Generator().manual_seed(seed)
    distance, angle, widening, height = torch.rand(4, count, channels, 5, generator=draw, dtype=torch.float64)
    radius, angle = side / 8 * distance.sqrt(), 2 * math.pi * angle
    centres = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1)
    return Blobs(centres, width * (1 + widening / 4), 4 * height - 2)


def pixel_grid(height: int, width: int, spacing: float = 1.0) -> Tensor:
    """Where the pixels of a map are whose centre is the origin, (height, width, 2): to the right, and up.

    >>> pixel_grid(1, 2, spacing=2).tolist()
    [[[-1.0, 0.0], [1.0, 0.0]]]
    """
    up = spacing * ((height - 1) / 2 - torch.arange(height, dtype=torch.float64))
    right = spacing * (torch.arange(width, dtype=torch.float64) - (width - 1) / 2)
    return torch.stack(torch.meshgrid(up, right, indexing="ij")[::-1], dim=-1)
