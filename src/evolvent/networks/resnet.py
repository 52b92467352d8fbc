"""Residual networks for small images (He et al. 2016), as Euler steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.dynamics import Residual
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, Integrator, LinearMultistep, ProjectedEuler
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import (
    ImageNetwork,
    PixelClassifier,
    PooledLinear,
    Readout,
    check_positive,
    per_unit,
    plain_conv,
)

Activation = Literal["post", "pre"]


@register_family("resnet", papers=("he2016deep",), recipe="mnist-residual")
def resnet(
    num_classes: int = 10,
    in_channels: int = 3,
    *,
    channels: tuple[int, ...] = (16, 32, 64),
    blocks: int | tuple[int, ...] = 7,
    step_size: float = 1.0,
    readout: Readout = "classification",
    dropout: float = 0.0,
) -> ImageNetwork:
    r"""Residual network: projected Euler steps of a two-convolution right-hand side.

    .. math:: u_{j+1} = \sigma\bigl(u_j + h\, \mathcal B(K_{j2}\, \sigma(\mathcal B(K_{j1} u_j)))\bigr)

    He et al. 2016 for CIFAR: the first block of each later unit halves the image with stride 2 and pads the shortcut's
    new channels with zeros (option A).

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        channels: feature maps of each unit.
        blocks: residual blocks of each unit, one number for all or one for each.
        step_size: :math:`h`; 1 is the original.
        readout: one class per image, or one per pixel; then no unit halves the image.
        dropout: share of pooled features dropped in training.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation; any H and W.

    >>> sum(p.numel() for p in resnet().parameters())
    658586
    """
    frame = _Frame("post", lambda _: ProjectedEuler(), step_size, readout)
    return frame.network(num_classes, in_channels, channels, blocks, dropout)


@register_family("preresnet", papers=("he2016identity",), recipe="mnist-residual")
def preresnet(
    num_classes: int = 10,
    in_channels: int = 3,
    *,
    channels: tuple[int, ...] = (24, 48, 92),
    blocks: int | tuple[int, ...] = 3,
    step_size: float = 1.0,
    readout: Readout = "classification",
    dropout: float = 0.0,
) -> ImageNetwork:
    r"""Pre-activation residual network: Euler steps of a right-hand side that normalises first.

    .. math:: u_{j+1} = u_j + h\, K_{j2}\, \sigma(\mathcal B(K_{j1}\, \sigma(\mathcal B(u_j))))

    He et al. 2016 (identity mappings). Bohn et al. 2021 print 0.57M parameters for PreResNet-20 without its widths; no
    standard choice gives that number together with the 0.59M printed for 100 classes. The default widths here,
    (24, 48, 92), come nearest among those that about double from unit to unit: 569,370 and 577,740.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        channels: feature maps of each unit.
        blocks: residual blocks of each unit, one number for all or one for each.
        step_size: :math:`h`; 1 is the original.
        readout: one class per image, or one per pixel; then no unit halves the image.
        dropout: share of pooled features dropped in training.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation; any H and W.

    >>> preresnet(channels=(8, 16), blocks=1)(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 10])
    """
    frame = _Frame("pre", lambda _: Euler(), step_size, readout)
    return frame.network(num_classes, in_channels, channels, blocks, dropout)


@register_family("lm_resnet", papers=("lu2018", "he2016identity"), recipe="mnist-families")
def lm_resnet(
    num_classes: int = 10,
    in_channels: int = 3,
    *,
    channels: tuple[int, ...] = (16, 32, 64),
    blocks: int | tuple[int, ...] = 3,
    step_size: float = 1.0,
    readout: Readout = "classification",
    dropout: float = 0.0,
) -> ImageNetwork:
    r"""LM-ResNet: pre-activation residual network with a trainable two-step method.

    .. math:: u_{j+1} = (1 - k_j) u_j + k_j u_{j-1} + h\, F_j(u_j)

    Lu, Zhong, Li, Dong 2018; :math:`k_j` starts at zero, where the network is a :func:`preresnet`.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        channels: feature maps of each unit.
        blocks: residual blocks of each unit, one number for all or one for each.
        step_size: :math:`h`.
        readout: one class per image, or one per pixel; then no unit halves the image.
        dropout: share of pooled features dropped in training.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation; any H and W.
    """
    frame = _Frame("pre", LinearMultistep, step_size, readout)
    return frame.network(num_classes, in_channels, channels, blocks, dropout)


class Transition(nn.Module):
    r"""The residual block that widens the features: :math:`u^+ = S u + h F(u)`, with strided first convolution.

    :math:`S` takes every ``stride``-th pixel and pads the new channels with zeros (option A of He et al. 2016); in the
    post-activation form a ReLU acts on the sum.
    """

    def __init__(self, before: int, after: int, activation: Activation, step_size: float, stride: int = 2) -> None:
        super().__init__()
        self.activation = activation
        self.stride = stride
        self.step_size = step_size
        self.extra = after - before
        self.conv1 = plain_conv(before, after, stride=stride)
        self.norm1 = nn.BatchNorm2d(before if activation == "pre" else after)
        self.conv2 = plain_conv(after, after)
        self.norm2 = nn.BatchNorm2d(after)

    def forward(self, u: Tensor) -> Tensor:
        taken = u[:, :, :: self.stride, :: self.stride]
        shortcut = F.pad(taken, (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2))
        if self.activation == "pre":
            update = self.conv2(torch.relu(self.norm2(self.conv1(torch.relu(self.norm1(u))))))
            return shortcut + self.step_size * update
        update = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(u)))))
        return torch.relu(shortcut + self.step_size * update)


@dataclass(frozen=True)
class _Frame:
    """What residual networks differ in; ``method`` is made for a unit's number of steps."""

    activation: Activation
    method: Callable[[int], Integrator]
    step_size: float
    readout: Readout

    def network(
        self,
        num_classes: int,
        in_channels: int,
        channels: tuple[int, ...],
        blocks: int | tuple[int, ...],
        dropout: float,
    ) -> ImageNetwork:
        check_positive(num_classes=num_classes, in_channels=in_channels, channels=channels)
        first, last = channels[0], channels[-1]
        stem: nn.Module = plain_conv(in_channels, first)
        body = self._units(channels, per_unit(blocks, len(channels)))
        if self.activation == "post":
            stem = nn.Sequential(stem, nn.BatchNorm2d(first), nn.ReLU())
        else:
            body += [nn.BatchNorm2d(last), nn.ReLU()]
        pooled = self.readout == "classification"
        head = PooledLinear(last, num_classes, dropout=dropout) if pooled else PixelClassifier(last, num_classes)
        return ImageNetwork(stem, body, head, in_channels=in_channels)

    def _units(self, channels: tuple[int, ...], counts: list[int]) -> list[nn.Module]:
        """Units of residual steps, with a transition as the first block of each but the first."""
        stride = 2 if self.readout == "classification" else 1
        body: list[nn.Module] = []
        for unit, (width, count) in enumerate(zip(channels, counts, strict=True)):
            if unit:
                body.append(Transition(channels[unit - 1], width, self.activation, self.step_size, stride))
            steps = [Residual(width, self.activation) for _ in range(count - (unit > 0))]
            body.append(Evolution(steps, self.method(max(len(steps), 1)), step_size=self.step_size))
        return body


register_member("resnet44", "resnet", recipe="pide-table1-cifar10", channels=(16, 32, 64), blocks=7)
register_member("preresnet20", "preresnet", recipe="pide-table1-cifar10", channels=(24, 48, 92), blocks=3)
