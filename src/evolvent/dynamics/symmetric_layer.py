"""The building block of stable dynamics: a layer whose Jacobian is symmetric."""

from __future__ import annotations

from typing import TypedDict

import torch
from torch import Tensor, nn

from evolvent.dynamics.activation import ACTIVATIONS, ActivationName, known_activation
from evolvent.dynamics.normalisation import Norm, make_norm, normalise
from evolvent.operators import make_operator


class LayerOptions(TypedDict, total=False):
    """The options of a symmetric layer, which dynamics built of such layers pass on."""

    operator: str
    norm: Norm | None
    bias: bool
    activation: ActivationName


class SymmetricLayer(nn.Module):
    r"""Operator, normalisation, bias, nonlinearity, and the operator's transpose.

    .. math:: S(u) = K^\top \sigma\bigl(\mathcal N(K u) + b\bigr)

    Without normalisation the Jacobian :math:`K^\top \operatorname{diag}(\sigma') K` is symmetric and, for monotone
    :math:`\sigma`, positive semidefinite (Ruthotto and Haber 2020), so :math:`u' = -S(u)` contracts.

    Args:
        channels: number of channels of :math:`u`.
        hidden: number of channels of :math:`K u`; as many as ``channels`` unless given.
        operator: kind of :math:`K`, such as ``"full"`` or ``"dense"``.
        norm: kind of :math:`\mathcal N`, or None.
        bias: whether to learn :math:`b`, one number per channel.
        activation: name of :math:`\sigma`.

    Shape: (B, channels, ...) to the same.

    >>> SymmetricLayer(4)(torch.randn(2, 4, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(
        self,
        channels: int,
        hidden: int | None = None,
        *,
        operator: str = "full",
        norm: Norm | None = None,
        bias: bool = False,
        activation: ActivationName = "relu",
    ) -> None:
        super().__init__()
        hidden = hidden or channels
        self.operator = make_operator(operator, channels, hidden)
        self.bias = nn.Parameter(torch.zeros(hidden)) if bias else None
        self.norm = make_norm(norm, hidden, self.operator.space_axes)
        self.activation: ActivationName = known_activation(activation)

    def forward(self, u: Tensor) -> Tensor:
        return self.operator.adjoint(ACTIVATIONS[self.activation].value(self.inner(u)))

    def inner(self, u: Tensor) -> Tensor:
        r""":math:`\mathcal N(K u) + b`."""
        return normalise(self.operator(u), self.norm, self.bias)

    def potential(self, u: Tensor) -> Tensor:
        r""":math:`\sum s(\mathcal N(K u) + b)` per sample with :math:`s' = \sigma`; without normalisation its gradient
        is :math:`S(u)`."""
        return ACTIVATIONS[self.activation].antiderivative(self.inner(u)).flatten(1).sum(1)
