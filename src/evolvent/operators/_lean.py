"""What lean operators share: space and channels are treated one after the other, or side by side."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent.operators._contract import LinearOperator

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
