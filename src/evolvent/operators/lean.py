"""Lean convolutions: a stencil on each channel, and a 1x1 convolution that couples them."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent.operators._contract import OPERATORS, LinearOperator

LeanForm: TypeAlias = Literal["product", "sum"]


class LeanOperator(LinearOperator):
    r"""A stencil :math:`D` on each channel and a 1x1 convolution :math:`P` over channels: :math:`K = P D` or
    :math:`K = D + P`.
    """

    space_axes = 2

    def __init__(self, in_channels: int, out_channels: int, form: LeanForm) -> None:
        super().__init__()
        if form == "sum" and in_channels != out_channels:
            raise ConfigError(
                f"the sum of a stencil on each channel and a 1x1 convolution keeps the number of channels, "
                f"got {in_channels} and {out_channels}. Use form='product'."
            )
        self.form = form
        self.pointwise = nn.Parameter(torch.empty(out_channels, in_channels, 1, 1))
        # as kaiming's for a full convolution, K doubles the mean square of its input in either form
        nn.init.kaiming_normal_(self.pointwise, nonlinearity="relu" if form == "product" else "linear")

    @abstractmethod
    def kernel(self) -> Tensor:
        """The stencils of :math:`D`, (in_channels, 1, 3, 3)."""

    def forward(self, u: Tensor) -> Tensor:
        filtered = F.conv2d(u, self.kernel(), padding=1, groups=self.pointwise.shape[1])
        if self.form == "product":
            return F.conv2d(filtered, self.pointwise)
        return filtered + F.conv2d(u, self.pointwise)

    def adjoint(self, v: Tensor) -> Tensor:
        mixed = F.conv_transpose2d(v, self.pointwise)
        filtered = mixed if self.form == "product" else v
        filtered = F.conv_transpose2d(filtered, self.kernel(), padding=1, groups=self.pointwise.shape[1])
        return filtered if self.form == "product" else filtered + mixed

    def extra_repr(self) -> str:
        out_channels, in_channels = self.pointwise.shape[:2]
        return f"{in_channels}, {out_channels}, form={self.form!r}"


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


class FivePointConvolution(LeanOperator):
    r"""Depthwise five-point stencil and 1x1 convolution, zero padded, without bias.

    .. math:: (D u)_i(x) = \sum_{|d|_1 \le 1} k_i(d)\, u_i(x + d), \qquad
              K = P D, \; K^\top = D^\top P^\top \quad\text{or}\quad K = D + P, \; K^\top = D^\top + P^\top

    Ephrath et al. 2020 (LeanConvNets) add the two, which is ``form="sum"``. The stencil reaches a pixel and its four
    neighbours, as the discrete Laplacian does; it has five weights for each channel: north, west, centre, east, south.
    One depthwise convolution with zeros in the corners applies it: on a CPU a third of the time of five shifted sums
    and half that of a column and a row convolution.

    Args:
        in_channels, out_channels: number of feature maps; equal for a sum.
        form: ``"product"`` (kind ``"lean5"``) or ``"sum"`` (kind ``"lean5-sum"``).

    Shape: (B, in_channels, H, W) to (B, out_channels, H, W); the adjoint goes back.

    >>> FivePointConvolution(1, 1).kernel().count_nonzero().item()
    5
    """

    def __init__(self, in_channels: int, out_channels: int, form: LeanForm = "product") -> None:
        super().__init__(in_channels, out_channels, form)
        self.cross = nn.Parameter(torch.empty(in_channels, 5))
        nn.init.kaiming_normal_(self.cross, nonlinearity="linear")

    def kernel(self) -> Tensor:
        corner = self.cross.new_zeros(len(self.cross), 1)
        north, middle, south = self.cross.split((1, 3, 1), dim=1)
        return torch.cat((corner, north, corner, middle, corner, south, corner), dim=1).view(-1, 1, 3, 3)


OPERATORS.add("lean5", FivePointConvolution)
OPERATORS.add("lean5-sum", partial(FivePointConvolution, form="sum"))
