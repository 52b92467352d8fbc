"""The building block of stable dynamics: a layer whose Jacobian is symmetric."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent.operators import LinearOperator


class SymmetricLayer(nn.Module):
    r"""Operator, bias, normalisation, nonlinearity, and the operator's transpose.

    .. math:: S(u) = K^\top \sigma\bigl(\mathcal N(K u + b)\bigr)

    Without normalisation the Jacobian :math:`K^\top \operatorname{diag}(\sigma') K` is symmetric and, for monotone
    :math:`\sigma`, positive semidefinite (Ruthotto and Haber 2020), so :math:`u' = -S(u)` contracts.

    Args:
        operator: :math:`K`.
        channels: number of channels of :math:`K u`.
        bias: whether to add :math:`b`, one number per channel.
        norm: normalisation :math:`\mathcal N`, or None.

    Shape: (B, C, ...) to (B, C, ...).

    >>> from evolvent.operators import Convolution
    >>> SymmetricLayer(Convolution(4, 4), 4)(torch.randn(2, 4, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(
        self, operator: LinearOperator, channels: int, *, bias: bool = False, norm: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.operator = operator
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None
        self.norm = norm

    def forward(self, u: Tensor) -> Tensor:
        return self.operator.adjoint(torch.relu(self._inner(u)))

    def potential(self, u: Tensor) -> Tensor:
        r""":math:`\sum s(\mathcal N(K u + b))` per sample with :math:`s' = \sigma`; without normalisation its gradient
        is :math:`S(u)`."""
        return 0.5 * torch.relu(self._inner(u)).square().flatten(1).sum(1)

    def _inner(self, u: Tensor) -> Tensor:
        k = self.operator(u)
        if self.bias is not None:
            k = k + self.bias.view(-1, *[1] * (k.ndim - 2))
        return k if self.norm is None else self.norm(k)
