"""Lean convolution: a stencil on each channel, and a 1x1 convolution that couples them."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from evolvent.operators._kinds import OPERATORS
from evolvent.operators._lean import LeanForm, LeanOperator


class LeanConvolution(LeanOperator):
    r"""Depthwise 3x3 convolution and 1x1 convolution, zero padded, without bias.

    .. math:: (D u)_i(x) = \sum_{|d|_\infty \le 1} k_i(d)\, u_i(x + d), \qquad
              K = P D, \; K^\top = D^\top P^\top \quad\text{or}\quad K = D + P, \; K^\top = D^\top + P^\top

    Ephrath et al. 2020 (LeanConvNets) add the two, which is ``form="sum"``; one after the other is the depthwise
    separable convolution. With :math:`C` channels in and out it has :math:`C^2 + 9 C` weights instead of
    :math:`9 C^2`.

    Args:
        in_channels, out_channels: number of feature maps; equal for a sum.
        form: ``"product"`` (kind ``"lean"``) or ``"sum"`` (kind ``"lean-sum"``).

    Shape: (B, in_channels, H, W) to (B, out_channels, H, W); the adjoint goes back.

    >>> sum(w.numel() for w in LeanConvolution(32, 32).parameters())
    1312
    """

    def __init__(self, in_channels: int, out_channels: int, form: LeanForm = "product") -> None:
        super().__init__(in_channels, out_channels, form)
        self.depthwise = nn.Parameter(torch.empty(in_channels, 1, 3, 3))
        nn.init.kaiming_normal_(self.depthwise, nonlinearity="linear")

    def kernel(self) -> Tensor:
        return self.depthwise


OPERATORS.add("lean", LeanConvolution)
OPERATORS.add("lean-sum", partial(LeanConvolution, form="sum"))
