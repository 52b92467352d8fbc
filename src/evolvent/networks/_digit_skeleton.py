"""The frame of ODE-Net for digits, which its rivals share: a stem that shrinks the image, one block, a pooled head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import torch
from torch import Tensor, nn

from evolvent.networks._options import Count, ImageOptions, InChannels, Width
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, plain_conv

Downsampling: TypeAlias = Annotated[
    Literal["conv", "residual"], "how the stem shrinks the image by 4: strided convolutions or residual blocks"
]


@dataclass(frozen=True, kw_only=True)
class DigitOptions(ImageOptions):
    """The options that all networks in this frame share."""

    in_channels: InChannels = 1
    width: Width = 64
    groups: Annotated[Count, "groups of the normalisation; few channels need few groups"] = 32
    downsampling: Downsampling = "conv"


class ShrinkingBlock(nn.Module):
    r"""A residual block that halves the image, :math:`u^+ = S v + K_2 \sigma(\mathcal G K_1 v)`,
    :math:`v = \sigma(\mathcal G u)`, where :math:`S` is a convolution with one tap and :math:`K_1` has stride 2.

    Shape: (B, channels, H, W) to (B, channels, ceil(H / 2), ceil(W / 2)).
    """

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = (group_norm(channels, groups) for _ in range(2))
        self.shortcut = plain_conv(channels, channels, 1, stride=2)
        self.conv1, self.conv2 = plain_conv(channels, channels, stride=2), plain_conv(channels, channels)

    def forward(self, u: Tensor) -> Tensor:
        v = torch.relu(self.norm1(u))
        return self.shortcut(v) + self.conv2(torch.relu(self.norm2(self.conv1(v))))


def digit_stem(options: DigitOptions) -> nn.Sequential:
    """From images to ``width`` feature maps of about a quarter of their height and width."""
    width, groups = options.width, options.groups
    parts: list[nn.Module] = [nn.Conv2d(options.in_channels, width, 3)]
    for _ in range(2):
        if options.downsampling == "residual":
            parts.append(ShrinkingBlock(width, groups))
        else:
            parts += [group_norm(width, groups), nn.ReLU(), nn.Conv2d(width, width, 4, stride=2, padding=1)]
    return nn.Sequential(*parts)


def digit_network(options: DigitOptions, stem: nn.Module, body: Sequence[nn.Module], channels: int) -> ImageNetwork:
    """Stem, body, normalisation, average over all pixels, and an affine map; ``channels`` leave the body."""
    head = PooledLinear(channels, options.num_classes, dropout=options.dropout)
    rest = [*body, group_norm(channels, options.groups), nn.ReLU()]
    return ImageNetwork(stem, rest, head, in_channels=options.in_channels)


def group_norm(channels: int, groups: int) -> nn.GroupNorm:
    """Group normalisation; one group where the number does not divide the channels."""
    return nn.GroupNorm(groups if channels % groups == 0 else 1, channels)
