"""Residual dynamics: the module that a ResNet adds to its features."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from torch import Tensor

from evolvent._core.checks import check_choice
from evolvent._core.errors import ConfigError
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

Placement: TypeAlias = Literal["post", "pre"]


class Residual(Dynamics):
    r"""One or two operators with normalisation and activation, without further structure.

    .. math::
        F_\text{post}(u) = \mathcal N(K_2\, \sigma(\mathcal N(K_1 u) + b_1)) + b_2, \qquad
        F_\text{pre}(u) = K_2\, \sigma(\mathcal N(K_1\, \sigma(\mathcal N(u) + b_1)) + b_2)

    He et al. 2016a (post-activation; the ReLU after the sum belongs to the step, see
    :class:`~evolvent.integrators.ProjectedEuler`) and He et al. 2016b (pre-activation). With one operator

    .. math:: F_\text{post}(u) = \sigma(\mathcal N(K_1 u) + b_1), \qquad
              F_\text{pre}(u) = K_1\, \sigma(\mathcal N(u) + b_1),

    of which the first is the network of Haber and Ruthotto 2017 before it is made stable.

    Args:
        channels: number of channels.
        placement: of :math:`\mathcal N` and :math:`\sigma`, ``"post"`` (after the operator) or ``"pre"`` (before it).
        convolutions: number of operators, 1 or 2.
        operator: kind of the operators, such as ``"full"`` or ``"dense"``.
        norm: kind of :math:`\mathcal N`, or None.
        bias: whether to learn :math:`b_i`, one number per channel or regular field.
        activation: name of :math:`\sigma`.

    Shape: (B, channels, ...) to the same.

    >>> import torch
    >>> Residual(4)(0.0, torch.randn(2, 4, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    >>> Residual(3, convolutions=1, operator="dense", norm=None)(0.0, torch.randn(2, 3)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        channels: int,
        placement: Placement = "post",
        *,
        convolutions: Literal[1, 2] = 2,
        operator: str = "full",
        norm: Norm | None = "batch",
        bias: bool = False,
        activation: ActivationName = "relu",
    ) -> None:
        super().__init__()
        if convolutions not in (1, 2):
            raise ConfigError(f"convolutions must be 1 or 2, got {convolutions!r}.")
        self.placement: Placement = check_choice("placement", placement, get_args(Placement))
        self.conv1 = make_operator(operator, channels, channels)
        self.activation: ActivationName = check_activation(activation, self.conv1)
        self.norm1 = make_norm(norm, channels, self.conv1)
        self.bias1 = make_bias(channels, self.conv1) if bias else None
        self.conv2 = self.norm2 = self.bias2 = None
        if convolutions == 2:
            self.conv2 = make_operator(operator, channels, channels)
            self.norm2 = make_norm(norm, channels, self.conv2)
            self.bias2 = make_bias(channels, self.conv2) if bias else None

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        return self._pre(u) if self.placement == "pre" else self._post(u)

    def _post(self, u: Tensor) -> Tensor:
        sigma = ACTIVATIONS[self.activation].value
        inner = sigma(normalise(self.conv1(u), self.norm1, self.bias1))
        return inner if self.conv2 is None else normalise(self.conv2(inner), self.norm2, self.bias2)

    def _pre(self, u: Tensor) -> Tensor:
        sigma = ACTIVATIONS[self.activation].value
        inner = self.conv1(sigma(normalise(u, self.norm1, self.bias1)))
        return inner if self.conv2 is None else self.conv2(sigma(normalise(inner, self.norm2, self.bias2)))
