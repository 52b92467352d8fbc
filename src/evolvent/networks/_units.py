"""The multi-resolution frame that the PDE networks share: units of evolutions, coarser and wider in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from torch import nn

from evolvent.dynamics.layers import LayerOptions
from evolvent.networks._options import (
    Bias,
    Blocks,
    Channels,
    Count,
    HeadPool,
    ImageOptions,
    ImageSize,
    NormOption,
    Operator,
    ReadoutOption,
    StepSize,
)
from evolvent.networks._skeleton import (
    ImageNetwork,
    PixelClassifier,
    PooledLinear,
    height_and_width,
    per_unit,
    plain_conv,
)


@dataclass(frozen=True, kw_only=True)
class UnitOptions(ImageOptions):
    """The options of every network in this frame; a family with more options, or other defaults, subclasses it."""

    image_size: ImageSize = 32
    channels: Channels = (32, 64, 112)
    blocks: Blocks = 6
    step_size: StepSize = 0.1
    readout: ReadoutOption = "classification"
    coarsen: Annotated[Count, "for segmentation, stride of the first convolution; the answer is interpolated back"] = 1
    head_pool: HeadPool = 2
    operator: Operator = "full"
    norm: NormOption = None
    bias: Bias = False

    @property
    def layer(self) -> LayerOptions:
        """The options that all dynamics take."""
        return {"operator": self.operator, "norm": self.norm, "bias": self.bias}


@dataclass(frozen=True)
class Unit:
    """What a family needs to know to build one unit; ``size`` is that of its maps, None where any will do."""

    width: int
    blocks: int
    size: tuple[int, int] | None


def unit_network(options: UnitOptions, make_unit: Callable[[Unit], list[nn.Module]]) -> ImageNetwork:
    """The network whose units are what ``make_unit`` builds.

    A 3x3 convolution lifts the image; between units, average pooling by 2 and a 1x1 convolution with ReLU raise the
    channels (Bohn, Griebel, Kannan 2021, section 4.6); segmentation leaves the pooling out.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.
    """
    pooled = options.readout == "classification"
    sizes = _sizes(options) if pooled else [None] * len(options.channels)
    counts = per_unit(options.blocks, len(options.channels))
    units = [make_unit(Unit(*unit)) for unit in zip(options.channels, counts, sizes, strict=True)]
    body = _with_transitions(units, options.channels, pooled)
    first, last = options.channels[0], options.channels[-1]
    if not pooled:
        stem = plain_conv(options.in_channels, first, 2 * options.coarsen + 1, stride=options.coarsen)
        head = PixelClassifier(last, options.num_classes, options.coarsen)
        return ImageNetwork(stem, body, head, in_channels=options.in_channels)
    stem = plain_conv(options.in_channels, first)
    head = PooledLinear(last, options.num_classes, size=sizes[-1], pool=options.head_pool, dropout=options.dropout)
    return ImageNetwork(stem, body, head, in_channels=options.in_channels, image_size=sizes[0])


def _sizes(options: UnitOptions) -> list[tuple[int, int]]:
    """Height and width of the maps of each unit, halved from one to the next."""
    height, width = height_and_width(options.image_size)
    return [(height // 2**k, width // 2**k) for k in range(len(options.channels))]


def _with_transitions(units: list[list[nn.Module]], channels: tuple[int, ...], pooled: bool) -> list[nn.Module]:
    """The modules of all units, with a transition before each unit but the first."""
    body = list(units[0])
    for k in range(1, len(units)):
        pool = [nn.AvgPool2d(2)] if pooled else []
        body.append(nn.Sequential(*pool, plain_conv(channels[k - 1], channels[k], 1), nn.ReLU()))
        body += units[k]
    return body
