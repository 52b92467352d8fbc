"""The operator kind ``periodic``: a convolution of images whose edges are joined."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.operators import OPERATORS, LinearOperator


class PeriodicConvolution(LinearOperator):
    r"""Convolution of periodic images with a 3 x 3 stencil, without bias.

    .. math:: (K u)_o(x) = \sum_i \sum_d k_{oi}(d)\, u_i(x + d), \qquad
              (K^\top v)_i(x) = \sum_o \sum_d k_{oi}(d)\, v_o(x - d)

    Args:
        in_channels, out_channels: number of feature maps.

    Shape: (B, in_channels, H, W) to (B, out_channels, H, W); the adjoint goes back.
    """

    space_axes = 2

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, 3, 3))
        nn.init.kaiming_normal_(self.weight)

    def forward(self, u: Tensor) -> Tensor:
        return _convolve(u, self.weight)

    def adjoint(self, v: Tensor) -> Tensor:
        return _convolve(v, self.weight.transpose(0, 1).flip(2, 3))


def _convolve(u: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(F.pad(u, (1, 1, 1, 1), mode="circular"), weight)


OPERATORS.add("periodic", PeriodicConvolution)
