"""Convolution with zero padding, and its exact transpose."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent.operators._contract import LinearOperator
from evolvent.operators._kinds import OPERATORS


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
        if kernel_size % 2 == 0:
            raise ConfigError(f"Convolution keeps the image size, so kernel_size must be odd, got {kernel_size}.")
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel_size, kernel_size))
        nn.init.kaiming_normal_(self.weight)

    @property
    def padding(self) -> int:
        return self.weight.shape[-1] // 2

    def forward(self, u: Tensor) -> Tensor:
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
