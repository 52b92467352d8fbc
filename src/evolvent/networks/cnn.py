"""The plain convolutional network that equivariant ones are compared with on rotated digits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, TypeAlias

from annotated_types import Ge, Lt
from torch import Tensor, nn

from evolvent._core.errors import ShapeError
from evolvent.networks._options import Count, ImageOptions
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork

_KERNEL, _PADDINGS = 5, (1, 2, 2, 2, 2, 0)
_POOLED = (2, 3)  # layers after which the image is halved, counted from one
_HIDDEN = 64
_SMALLEST = 22  # pixels a side that leave one after the last layer

SixLayers: TypeAlias = tuple[Count, Count, Count, Count, Count, Count]


@dataclass(frozen=True, kw_only=True)
class CNNOptions(ImageOptions):
    channels: Annotated[SixLayers, "feature maps of each of the six layers"] = (40, 60, 80, 80, 120, 160)
    dropout: Annotated[float, Ge(0), Lt(1), "share of hidden features dropped in training"] = 0.0


@register_family("cnn", CNNOptions, papers=("he2022epdo", "jenner2022"), recipe="epdo-table2-cpu")
def cnn(options: CNNOptions) -> ConvolutionalNetwork:
    r"""Convolutional network: six convolutions, each with normalisation and ReLU, without any evolution.

    .. math:: u_{j+1} = P_j\, \sigma(\mathcal B(K_j u_j)), \qquad
              y = W_2\, \sigma(\mathcal B(W_1\, \mathrm{mean}(u_6) + b_1)) + b_2

    The kernels are 5x5, with paddings 1, 2, 2, 2, 2, 0; :math:`P_j` halves the image by means after the second and the
    third layer. This is the "vanilla CNN" of He et al. 2023, table 2, in the frame of the equivariant networks beside
    it (Jenner and Weiler 2022). The paper prints 1.1M parameters without the widths; the default ones here are 2.5
    times (16, 24, 32, 32, 48, 64), the numbers of fields of the equivariant networks.

    Shape: (B, in_channels, H, W) to (B, num_classes); any H and W from 22.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("cnn", in_channels=1).parameters())
    1073162
    """
    widths = (options.in_channels, *options.channels)
    stem, *body = (_layer(number, before, after) for number, (before, after) in enumerate(pairwise(widths), 1))
    head = _head(widths[-1], options.num_classes, options.dropout)
    return ConvolutionalNetwork(stem, body, head, in_channels=options.in_channels)


class ConvolutionalNetwork(ImageNetwork):
    """An image network that refuses images which its layers would shrink to nothing."""

    def _check(self, x: Tensor) -> None:
        super()._check(x)
        if min(x.shape[2:]) < _SMALLEST:
            raise ShapeError(
                f"this network takes images of at least {_SMALLEST}x{_SMALLEST} pixels, got shape {tuple(x.shape)}. "
                "Use larger images, or another network, such as resnet."
            )


def _layer(number: int, before: int, after: int) -> nn.Sequential:
    conv = nn.Conv2d(before, after, _KERNEL, padding=_PADDINGS[number - 1], bias=False)
    nn.init.kaiming_normal_(conv.weight)
    layer = nn.Sequential(conv, nn.BatchNorm2d(after), nn.ReLU())
    return layer.append(nn.AvgPool2d(2)) if number in _POOLED else layer


def _head(channels: int, num_classes: int, dropout: float) -> nn.Sequential:
    """Mean over the image, then two fully connected layers."""
    hidden = nn.Sequential(nn.Linear(channels, _HIDDEN), nn.BatchNorm1d(_HIDDEN), nn.ReLU())
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(pool, hidden, nn.Dropout(dropout), nn.Linear(_HIDDEN, num_classes))
