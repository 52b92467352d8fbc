"""The multi-resolution frame that the PDE networks share: units of one evolution each, coarser and wider in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from torch import nn

from evolvent.evolution import Evolution
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, check_positive, per_unit, plain_conv

Readout: TypeAlias = Literal["classification", "segmentation"]
ImageSize: TypeAlias = int | tuple[int, int]


def unit_network(
    make_evolution: Callable[[int, int], Evolution],
    *,
    num_classes: int,
    in_channels: int,
    image_size: ImageSize,
    channels: tuple[int, ...],
    blocks: int | tuple[int, ...],
    readout: Readout,
    head_pool: int,
    dropout: float,
) -> ImageNetwork:
    """A 3x3 convolution, then units; between units average pooling by 2 and a 1x1 convolution with ReLU.

    The frame of Chang et al. 2018 as Bohn, Griebel, Kannan 2021 describe it (section 4.6). Segmentation leaves the
    pooling out and classifies each pixel by a 1x1 convolution.

    Args:
        make_evolution: from the width of a unit and its number of blocks to its evolution.
        num_classes, in_channels, image_size, channels, blocks, readout, head_pool, dropout: see the families.
    """
    check_positive(num_classes=num_classes, in_channels=in_channels, image_size=image_size, head_pool=head_pool)
    check_positive(channels=channels)
    pooled = readout == "classification"
    body: list[nn.Module] = []
    for unit, (width, count) in enumerate(zip(channels, per_unit(blocks, len(channels)), strict=True)):
        if unit:
            body.append(_raise_channels(channels[unit - 1], width, pooled))
        body.append(make_evolution(width, count))
    stem = plain_conv(in_channels, channels[0])
    if not pooled:
        return ImageNetwork(stem, body, nn.Conv2d(channels[-1], num_classes, 1), in_channels=in_channels)
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    shrink = 2 ** (len(channels) - 1)
    final = (size[0] // shrink, size[1] // shrink)
    head = PooledLinear(channels[-1], num_classes, size=final, pool=head_pool, dropout=dropout)
    return ImageNetwork(stem, body, head, in_channels=in_channels, image_size=size)


def _raise_channels(before: int, after: int, pooled: bool) -> nn.Sequential:
    pool = [nn.AvgPool2d(2)] if pooled else []
    return nn.Sequential(*pool, plain_conv(before, after, 1), nn.ReLU())
