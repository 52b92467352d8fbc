"""Residual networks for small images (He et al. 2016), as Euler steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.dynamics import Residual
from evolvent.dynamics.residual import Placement
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, Integrator, LinearMultistep, ProjectedEuler
from evolvent.networks._options import Blocks, Channels, ImageOptions, ReadoutOption, StepSize
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import ImageNetwork, PixelClassifier, PooledLinear, per_unit, plain_conv


@dataclass(frozen=True, kw_only=True)
class ResidualOptions(ImageOptions):
    """The options of residual networks."""

    channels: Channels = (16, 32, 64)
    blocks: Blocks = 3
    step_size: StepSize = 1.0
    readout: ReadoutOption = "classification"


@dataclass(frozen=True, kw_only=True)
class ResNetOptions(ResidualOptions):
    blocks: Blocks = 7


@register_family("resnet", ResNetOptions, papers=("he2016deep",), recipe="mnist-residual")
def resnet(options: ResNetOptions) -> ImageNetwork:
    r"""Residual network: projected Euler steps of a two-convolution right-hand side.

    .. math:: u_{j+1} = \sigma\bigl(u_j + h\, \mathcal B(K_{j2}\, \sigma(\mathcal B(K_{j1} u_j)))\bigr)

    He et al. 2016 for CIFAR: the first block of each later unit halves the image with stride 2 and pads the shortcut's
    new channels with zeros (option A).

    For segmentation no unit halves the image.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation; any H and W.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("resnet").parameters())
    658586
    """
    return _residual_network(options, "post", lambda _: ProjectedEuler())


@dataclass(frozen=True, kw_only=True)
class PreResNetOptions(ResidualOptions):
    channels: Channels = (24, 48, 92)


@register_family("preresnet", PreResNetOptions, papers=("he2016identity",), recipe="mnist-residual")
def preresnet(options: PreResNetOptions) -> ImageNetwork:
    r"""Pre-activation residual network: Euler steps of a right-hand side that normalises first.

    .. math:: u_{j+1} = u_j + h\, K_{j2}\, \sigma(\mathcal B(K_{j1}\, \sigma(\mathcal B(u_j))))

    He et al. 2016 (identity mappings). Bohn et al. 2021 print 0.57M parameters for PreResNet-20 without its widths; no
    standard choice gives that number together with the 0.59M printed for 100 classes. The default widths here,
    (24, 48, 92), come nearest among those that about double from unit to unit: 569,370 and 577,740.

    For segmentation no unit halves the image.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation; any H and W.

    >>> import evolvent as ev
    >>> ev.create_model("preresnet", channels=(8, 16), blocks=1)(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 10])
    """
    return _residual_network(options, "pre", lambda _: Euler())


@register_family("lm_resnet", ResidualOptions, papers=("lu2018", "he2016identity"), recipe="mnist-families")
def lm_resnet(options: ResidualOptions) -> ImageNetwork:
    r"""LM-ResNet: pre-activation residual network with a trainable two-step method.

    .. math:: u_{j+1} = (1 - k_j) u_j + k_j u_{j-1} + h\, F_j(u_j)

    Lu, Zhong, Li, Dong 2018; :math:`k_j` starts at zero, where the network is a pre-activation residual network.

    For segmentation no unit halves the image.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation; any H and W.
    """
    return _residual_network(options, "pre", LinearMultistep)


class Transition(nn.Module):
    r"""The residual block that widens the features: :math:`u^+ = S u + h F(u)`, with strided first convolution.

    :math:`S` takes every ``stride``-th pixel and pads the new channels with zeros (option A of He et al. 2016); in the
    post-activation form a ReLU acts on the sum.
    """

    def __init__(self, before: int, after: int, placement: Placement, step_size: float, stride: int = 2) -> None:
        super().__init__()
        self.placement = placement
        self.stride = stride
        self.step_size = step_size
        self.extra = after - before
        self.conv1 = plain_conv(before, after, stride=stride)
        self.norm1 = nn.BatchNorm2d(before if placement == "pre" else after)
        self.conv2 = plain_conv(after, after)
        self.norm2 = nn.BatchNorm2d(after)

    def forward(self, u: Tensor) -> Tensor:
        taken = u[:, :, :: self.stride, :: self.stride]
        shortcut = F.pad(taken, (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2))
        if self.placement == "pre":
            update = self.conv2(torch.relu(self.norm2(self.conv1(torch.relu(self.norm1(u))))))
            return shortcut + self.step_size * update
        update = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(u)))))
        return torch.relu(shortcut + self.step_size * update)


def _residual_network(
    options: ResidualOptions, placement: Placement, method: Callable[[int], Integrator]
) -> ImageNetwork:
    """A residual network; ``method`` makes the integrator for a unit's number of steps."""
    first, last, classes = options.channels[0], options.channels[-1], options.num_classes
    stem: nn.Module = plain_conv(options.in_channels, first)
    body = _units(options, placement, method)
    if placement == "post":
        stem = nn.Sequential(stem, nn.BatchNorm2d(first), nn.ReLU())
    else:
        body += [nn.BatchNorm2d(last), nn.ReLU()]
    pooled = options.readout == "classification"
    head = PooledLinear(last, classes, dropout=options.dropout) if pooled else PixelClassifier(last, classes)
    return ImageNetwork(stem, body, head, in_channels=options.in_channels)


def _units(options: ResidualOptions, placement: Placement, method: Callable[[int], Integrator]) -> list[nn.Module]:
    """Units of residual steps, with a transition as the first block of each but the first."""
    channels, h = options.channels, options.step_size
    stride = 2 if options.readout == "classification" else 1
    body: list[nn.Module] = []
    for unit, (width, count) in enumerate(zip(channels, per_unit(options.blocks, len(channels)), strict=True)):
        if unit:
            body.append(Transition(channels[unit - 1], width, placement, h, stride))
        steps = [Residual(width, placement) for _ in range(count - (unit > 0))]
        body.append(Evolution(steps, method(max(len(steps), 1)), step_size=h))
    return body


register_member("resnet44", "resnet", recipe="pide-table1-cifar10", channels=(16, 32, 64), blocks=7)
register_member("preresnet20", "preresnet", recipe="pide-table1-cifar10", channels=(24, 48, 92), blocks=3)
