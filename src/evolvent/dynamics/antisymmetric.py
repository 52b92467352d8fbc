"""Antisymmetric dynamics: features that turn and neither grow nor decay."""

from __future__ import annotations

from torch import Tensor

from evolvent._core.checks import check_not_negative
from evolvent._core.state import State
from evolvent.dynamics._contract import Dynamics
from evolvent.dynamics.layers import (
    ACTIVATIONS,
    ActivationName,
    Norm,
    check_activation,
    make_bias,
    make_norm,
    normalise,
)
from evolvent.operators import make_operator


class Antisymmetric(Dynamics):
    r"""A layer whose linear part is antisymmetric, with damping.

    .. math:: F(u) = \sigma\bigl(\mathcal N((K - K^\top - \gamma I)\, u) + b\bigr)

    Haber and Ruthotto 2017. The eigenvalues of :math:`K - K^\top - \gamma I` have real part :math:`-\gamma`. Those of
    the Jacobian :math:`\operatorname{diag}(\sigma') (K - K^\top - \gamma I)`, without normalisation and for monotone
    :math:`\sigma`, have none above 0, so that perturbations neither grow nor, for small :math:`\gamma`, get lost.
    Explicit Euler needs :math:`\gamma > 0` to be stable.

    Args:
        channels: number of channels.
        damping: :math:`\gamma \ge 0`.
        operator: kind of :math:`K`, such as ``"full"`` or ``"dense"``.
        norm: kind of :math:`\mathcal N`, or None.
        bias: whether to learn :math:`b`, one number per channel or regular field.
        activation: name of :math:`\sigma`.

    Shape: (B, channels, ...) to the same.

    >>> import torch
    >>> Antisymmetric(4, damping=0.1)(0.0, torch.randn(2, 4, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(
        self,
        channels: int,
        *,
        damping: float = 0.0,
        operator: str = "full",
        norm: Norm | None = None,
        bias: bool = False,
        activation: ActivationName = "tanh",
    ) -> None:
        super().__init__()
        check_not_negative(damping=damping)  # below 0 features grow
        self.damping = damping
        self.operator = make_operator(operator, channels, channels)
        self.bias = make_bias(channels, self.operator) if bias else None
        self.norm = make_norm(norm, channels, self.operator)
        self.activation: ActivationName = check_activation(activation, self.operator)

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        return ACTIVATIONS[self.activation].value(normalise(self.linear(u), self.norm, self.bias))

    def linear(self, u: Tensor) -> Tensor:
        r""":math:`(K - K^\top - \gamma I)\, u`."""
        turned = self.operator.skew(u)
        return turned - self.damping * u if self.damping else turned

    def extra_repr(self) -> str:
        return f"damping={self.damping:g}, activation={self.activation!r}"
