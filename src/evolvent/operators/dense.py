"""A matrix, for vectors without space."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.operators._contract import OPERATORS, LinearOperator


class Dense(LinearOperator):
    r"""A matrix :math:`K` on feature vectors.

    .. math:: (K u)_o = \sum_i k_{oi} u_i, \qquad (K^\top v)_i = \sum_o k_{oi} v_o

    Args:
        in_channels, out_channels: lengths of the vectors.

    Shape: (B, in_channels) to (B, out_channels); the adjoint goes back.

    >>> Dense(2, 3).adjoint(torch.zeros(1, 3)).shape
    torch.Size([1, 2])
    """

    space_axes = 0

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels))
        nn.init.kaiming_normal_(self.weight)

    def forward(self, u: Tensor) -> Tensor:
        return F.linear(u, self.weight)

    def adjoint(self, v: Tensor) -> Tensor:
        return F.linear(v, self.weight.T)

    def skew(self, u: Tensor) -> Tensor:
        return F.linear(u, self.weight - self.weight.T)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}"


OPERATORS.add("dense", Dense)
