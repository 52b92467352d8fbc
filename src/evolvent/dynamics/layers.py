"""What layers of dynamics are made of: activations, normalisations, and the layer whose Jacobian is symmetric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias, TypedDict, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_choice
from evolvent._core.errors import ConfigError
from evolvent.operators import FieldOperator, LinearOperator, make_operator
from evolvent.operators.differential import FieldActivation, FieldBatchNorm, FieldBias


class Activation(NamedTuple):
    """A function and its antiderivative."""

    value: Callable[[Tensor], Tensor]
    antiderivative: Callable[[Tensor], Tensor]


ActivationName: TypeAlias = Literal["relu", "tanh", "identity"]


def _log_cosh(x: Tensor) -> Tensor:
    return x.abs() + F.softplus(-2 * x.abs()) - 0.6931471805599453  # does not overflow as cosh would


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(torch.relu, lambda x: 0.5 * torch.relu(x).square()),
    "tanh": Activation(torch.tanh, _log_cosh),
    "identity": Activation(lambda x: x, lambda x: 0.5 * x.square()),
}


Norm: TypeAlias = Literal["batch", "group"]


def make_norm(kind: Norm | None, channels: int, operator: LinearOperator) -> nn.Module | None:
    """Batch or group normalisation for results of an operator, or None.

    Groups have eight channels where that divides them, else one group takes all. Fields have batch normalisation alone,
    which commutes with their group.

    >>> make_norm("group", 32, make_operator("full", 3, 32))
    GroupNorm(4, 32, eps=1e-05, affine=True, bias=True)
    """
    if kind is None:
        return None
    check_choice("norm", kind, get_args(Norm))
    if isinstance(operator, FieldOperator):
        if kind == "group":
            raise ConfigError(f"norm='group' does not commute with the group on {operator.out_field}. Use 'batch'.")
        return FieldBatchNorm(operator.out_field)
    if kind == "group":
        return nn.GroupNorm(channels // 8 if channels % 8 == 0 else 1, channels)
    return nn.BatchNorm2d(channels) if operator.space_axes == 2 else nn.BatchNorm1d(channels)


def make_bias(channels: int, operator: LinearOperator) -> nn.Parameter | FieldBias:
    """A bias for results of an operator: one number per channel, or per regular field where they are fields."""
    if isinstance(operator, FieldOperator):
        return FieldBias(operator.out_field)
    return nn.Parameter(torch.zeros(channels))


def check_activation(name: ActivationName, operator: LinearOperator) -> ActivationName:
    """The name itself, if it is known and commutes with the group where results of the operator are fields."""
    check_choice("activation", name, ACTIVATIONS)
    if isinstance(operator, FieldOperator):
        FieldActivation(operator.out_field, name)
    return name


def normalise(k: Tensor, norm: nn.Module | None, bias: Tensor | nn.Module | None) -> Tensor:
    r""":math:`\mathcal N(k) + b`; either may be left out."""
    k = k if norm is None else norm(k)
    if isinstance(bias, nn.Module):
        return bias(k)
    return k if bias is None else k + bias.view(-1, *[1] * (k.ndim - 2))


class LayerOptions(TypedDict, total=False):
    """The options of a symmetric layer, which dynamics built of such layers pass on."""

    operator: str
    norm: Norm | None
    bias: bool
    activation: ActivationName


class SymmetricLayer(nn.Module):
    r"""Operator, normalisation, bias, activation, and the operator's transpose.

    .. math:: S(u) = K^\top \sigma\bigl(\mathcal N(K u) + b\bigr)

    Without normalisation the Jacobian :math:`K^\top \operatorname{diag}(\sigma') K` is symmetric and, for monotone
    :math:`\sigma`, positive semidefinite (Ruthotto and Haber 2020), so :math:`u' = -S(u)` contracts.

    If :math:`K` maps fields to fields, as ``"steerable_c8"`` does, normalisation and bias are those of fields, and the
    layer commutes with their group.

    Args:
        channels: number of channels of :math:`u`.
        hidden: number of channels of :math:`K u`; as many as ``channels`` unless given.
        operator: kind of :math:`K`, such as ``"full"`` or ``"dense"``.
        norm: kind of :math:`\mathcal N`, or None.
        bias: whether to learn :math:`b`, one number per channel or regular field.
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
        self.bias = make_bias(hidden, self.operator) if bias else None
        self.norm = make_norm(norm, hidden, self.operator)
        # the name, since functions cannot be pickled
        self.activation: ActivationName = check_activation(activation, self.operator)

    def forward(self, u: Tensor) -> Tensor:
        return self.operator.adjoint(ACTIVATIONS[self.activation].value(self.inner(u)))

    def inner(self, u: Tensor) -> Tensor:
        r""":math:`\mathcal N(K u) + b`."""
        return normalise(self.operator(u), self.norm, self.bias)

    def potential(self, u: Tensor) -> Tensor:
        r""":math:`\sum s(\mathcal N(K u) + b)` per sample with :math:`s' = \sigma`; without normalisation its gradient
        is :math:`S(u)`."""
        return ACTIVATIONS[self.activation].antiderivative(self.inner(u)).flatten(1).sum(1)
