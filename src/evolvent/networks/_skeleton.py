"""What all image networks share: stem, a body of evolutions and transitions, head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_images, check_numbers, check_share
from evolvent._core.errors import ConfigError
from evolvent._core.state import parts
from evolvent.evolution import Evolution
from evolvent.networks._registry import ModelSpec


class ImageNetwork(nn.Module):
    r"""An evolution equation for images, :math:`u(0) = stem(x),\; u' = F(t, u),\; y = head(u(T))`, over several units.

    Args:
        stem: from images to features.
        body: evolutions, and transitions between resolutions.
        head: from features to the answer.
        in_channels: channels of an image.
        image_size: (height, width) that the head was made for, or None if it takes any.

    Shape: (B, in_channels, H, W) to what the head gives.
    """

    spec: ModelSpec

    def __init__(
        self,
        stem: nn.Module,
        body: Sequence[nn.Module],
        head: nn.Module,
        *,
        in_channels: int,
        image_size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.stem = stem
        self.body = nn.Sequential(*body)
        self.head = head
        self.in_channels = in_channels
        self.image_size = image_size

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.forward_features(x))

    def forward_features(self, x: Tensor) -> Tensor:
        """The features :math:`u(T)` that the head reads."""
        self._check(x)
        return self.body(self.stem(x))

    def trajectories(self, x: Tensor) -> list[list[Tensor]]:
        """For each evolution in order, its features at all times; of a pair of position and velocity, the position."""
        self._check(x)
        u, found = self.stem(x), []
        for module in self.body:
            if isinstance(module, Evolution):
                states = module.trajectory(u)
                found.append([parts(state)[0] for state in states])
                u = states[-1]
            else:
                u = module(u)
        return found

    def _check(self, x: Tensor) -> None:
        advice = "Create it with other in_channels or image_size, or change the images."
        check_images(x, "this network", self.in_channels, self.image_size, advice)
        check_numbers(x, self, "this network")


class PooledLinear(nn.Module):
    r"""Average pooling, then an affine map: :math:`y = W\, \mathrm{vec}(\mathrm{pool}(u)) + b`.

    Args:
        channels: channels of the features.
        size: (height, width) of the features, or None to average over all of them.
        pool: pool size where ``size`` is given.
        num_classes: number of answers.
        dropout: share of pooled features dropped in training.
    """

    def __init__(
        self,
        channels: int,
        num_classes: int,
        *,
        size: tuple[int, int] | None = None,
        pool: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_share(dropout=dropout)
        height, width = (1, 1) if size is None else (size[0] // pool, size[1] // pool)
        if height * width == 0:
            raise ConfigError(
                f"feature maps of {size} pixels are smaller than the head's pool of {pool}. Use larger images."
            )
        self.pool = nn.AdaptiveAvgPool2d(1) if size is None else nn.AvgPool2d(pool)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.linear = nn.Linear(channels * height * width, num_classes)

    def forward(self, u: Tensor) -> Tensor:
        return self.linear(self.dropout(torch.flatten(self.pool(u), 1)))


class PixelClassifier(nn.Conv2d):
    r"""An affine map of each pixel's features, interpolated bilinearly to a finer grid: :math:`y = I (W u + b)`.

    Args:
        channels: channels of the features.
        num_classes: number of answers per pixel.
        refine: how many pixels of the answer lie along each side of a pixel of the features.

    Shape: (B, channels, H, W) to (B, num_classes, refine H, refine W).
    """

    def __init__(self, channels: int, num_classes: int, refine: int = 1) -> None:
        super().__init__(channels, num_classes, 1)
        self.refine = refine

    def forward(self, u: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        y = super().forward(u)
        return y if self.refine == 1 else F.interpolate(y, scale_factor=self.refine, mode="bilinear")


def height_and_width(image_size: int | tuple[int, int]) -> tuple[int, int]:
    """Both, from one number for square images or from a pair."""
    return (image_size, image_size) if isinstance(image_size, int) else image_size


def plain_conv(before: int, after: int, kernel_size: int = 3, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias, initialised after He et al. 2015."""
    conv = nn.Conv2d(before, after, kernel_size, stride=stride, padding=kernel_size // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight)
    return conv


def per_unit(blocks: int | Sequence[int], units: int) -> list[int]:
    """Blocks of each unit from one number for all or one for each."""
    counts = [blocks] * units if isinstance(blocks, int) else list(blocks)
    if len(counts) != units:
        raise ConfigError(f"blocks must be one number, or {units} numbers for {units} units, got {blocks}.")
    return counts
