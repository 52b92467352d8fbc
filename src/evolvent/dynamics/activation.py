r"""Monotone nonlinearities :math:`\sigma` with antiderivatives :math:`s`, :math:`s' = \sigma`, which energies need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from evolvent._core.errors import UnknownNameError


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


def known_activation(name: ActivationName) -> ActivationName:
    """The name itself, if there is an activation of that name.

    Modules keep the name, which can be pickled, and look the function up when they use it.
    """
    if name not in ACTIVATIONS:
        raise UnknownNameError("activation", name, ACTIVATIONS, f"There are {', '.join(ACTIVATIONS)}.")
    return name
