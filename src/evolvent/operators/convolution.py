"""Convolution with zero padding and its exact transpose, and the 1x1 convolution as matrix products."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_images, check_numbers, check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.memory import check_fits
from evolvent.operators._contract import OPERATORS, LinearOperator


class Convolution(LinearOperator):
    r"""Full convolution :math:`K` over images, zero padded to keep their size, without bias.

    .. math:: (K u)_{o}(x) = \sum_{i}\sum_{|d| \le r} k_{o i}(d)\, u_i(x + d), \qquad
              (K^\top v)_{i}(x) = \sum_{o}\sum_{|d| \le r} k_{o i}(d)\, v_o(x - d)

    Forward and adjoint share one weight (Chang et al. 2018).

    Args:
        in_channels, out_channels: number of feature maps.
        kernel_size: odd width of the stencil.

    Shape: (B, in_channels, H, W) to (B, out_channels, H, W); the adjoint goes back.

    >>> K = Convolution(2, 3)
    >>> u, v = torch.randn(1, 2, 5, 5), torch.randn(1, 3, 5, 5)
    >>> torch.allclose((K(u) * v).sum(), (u * K.adjoint(v)).sum(), atol=1e-4)
    True
    """

    space_axes = 2

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int = 3) -> None:
        super().__init__()
        check_whole(in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size)
        if kernel_size % 2 == 0:
            raise ConfigError(f"Convolution keeps the image size, so kernel_size must be odd, got {kernel_size}.")
        check_fits(in_channels * out_channels * kernel_size**2, "this convolution")
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel_size, kernel_size))
        nn.init.kaiming_normal_(self.weight)

    @property
    def padding(self) -> int:
        return self.weight.shape[-1] // 2

    def forward(self, u: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            check_numbers(u, self, "this convolution")
            if u.ndim not in (3, 4) or u.shape[-3] != self.weight.shape[1]:
                check_images(u, "this convolution", self.weight.shape[1])
        return F.conv2d(u, self.weight, padding=self.padding)

    def adjoint(self, v: Tensor) -> Tensor:
        return F.conv_transpose2d(v, self.weight, padding=self.padding)

    def skew(self, u: Tensor) -> Tensor:
        # K - K^T is again a convolution, so that one does the work of two
        return F.conv2d(u, self.weight - self.weight.transpose(0, 1).flip(2, 3), padding=self.padding)

    def extra_repr(self) -> str:
        out_channels, in_channels, size, _ = self.weight.shape
        return f"{in_channels}, {out_channels}, kernel_size={size}"


OPERATORS.add("full", Convolution)


class Pointwise(nn.Conv2d):
    r"""1x1 convolution without bias, :math:`v_i = W u_i`, as matrix products.

    The same as :class:`torch.nn.Conv2d`, parameters included, but several times faster on CPUs. Features whose channels
    are neighbours in memory (``torch.channels_last``) stay so.

    Args:
        in_channels, out_channels: number of feature maps before and after.

    Shape: (B, in_channels, H, W) to (B, out_channels, H, W).

    >>> u, mix = torch.randn(2, 3, 4, 5), Pointwise(3, 6)
    >>> torch.allclose(mix(u), nn.functional.conv2d(u, mix.weight), atol=1e-6)
    True
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, 1, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        return pointwise(input, self.weight)


def pointwise(u: Tensor, weight: Tensor, *, relu: bool = False) -> Tensor:
    """The convolution of ``u``, (B, C, H, W), with ``weight``, (C', C, 1, 1), and its positive part if ``relu``."""
    if channels_are_neighbours(u):
        mixed = F.linear(u.permute(0, 2, 3, 1), weight.flatten(1))
        return (mixed.relu_() if relu else mixed).permute(0, 3, 1, 2)
    mixed = torch.bmm(weight.flatten(1).expand(u.shape[0], -1, -1), u.flatten(2))
    return (mixed.relu_() if relu else mixed).unflatten(2, u.shape[2:])


def channels_are_neighbours(u: Tensor) -> bool:
    """Whether features (B, C, H, W) lie in memory pixel after pixel, and not channel after channel."""
    return u.is_contiguous(memory_format=torch.channels_last) and not u.is_contiguous()


def channel_major(u: Tensor) -> Tensor:
    """Features (B, C, H, W) as (C, B, H, W), channel after channel in memory; copied only if they do not lie so."""
    return u.transpose(0, 1).contiguous()


def mix_channels(u: Tensor, weight: Tensor) -> Tensor:
    """The convolution of ``u``, (B, C, H, W), with ``weight``, (C', C), as one matrix product over all samples.

    The result lies in memory channel after channel, as :func:`channel_major` has it, so that a chain of such layers
    copies nothing.
    """
    planes = channel_major(u)
    return (weight @ planes.flatten(1)).view(len(weight), *planes.shape[1:]).transpose(0, 1)
