"""What acts on fields at each point: activations and dropout."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_choice, check_share
from evolvent.groups import Field
from evolvent.operators.differential.field_checks import (
    check_fields,
    check_moves_channels,
    check_moves_up_to_sign,
    check_orthogonal,
)


def _elu(u: Tensor) -> Tensor:
    """Written out for torch.compile, which assumes another memory layout of the gradient of F.elu than it has."""
    if torch.compiler.is_dynamo_compiling():
        return F.relu(u) + torch.expm1(u.clamp(max=0))
    return F.elu(u)


_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "elu": _elu,
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softsign": F.softsign,
    "identity": lambda u: u,
}
_ODD = ("tanh", "softsign", "identity")


class FieldActivation(nn.Module):
    r"""A function of each channel, :math:`v_c(x) = \sigma(u_c(x))`, where that commutes with the group.

    It does so for every function if the group only moves channels, as in scalar, regular and quotient fields, and for
    odd functions if it changes signs as well.

    Args:
        field: how features transform.
        name: ``"relu"``, ``"leaky_relu"``, ``"elu"``, ``"gelu"``, ``"silu"``, ``"softplus"`` or ``"sigmoid"``, or one
            that is odd: ``"tanh"``, ``"softsign"`` or ``"identity"``.

    Shape: (B, field.channels, H, W) to the same.

    >>> from evolvent.groups import cyclic, regular_fields
    >>> FieldActivation(regular_fields(cyclic(4), 2))(torch.randn(1, 8, 5, 5)).amin() >= 0
    tensor(True)
    """

    def __init__(self, field: Field, name: str = "relu") -> None:
        super().__init__()
        check_fields(self, field)
        check_choice("activation", name, _FUNCTIONS)
        check = check_moves_up_to_sign if name in _ODD else check_moves_channels
        check(field, f"the activation {name!r}", "NormActivation")
        self.in_field = self.out_field = field
        self.name = name

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, "FieldActivation")
        return _FUNCTIONS[self.name](u)

    def extra_repr(self) -> str:
        return f"{self.in_field}, {self.name!r}"


class NormActivation(nn.Module):
    r"""An activation that shortens the vector of each field, :math:`v = u \max(|u| - b, 0) / |u|`.

    It commutes with every orthogonal representation. Lengths are :math:`\sqrt{|u|^2 + 10^{-12}}`, so that there is a
    gradient at 0.

    Args:
        field: how features transform.
        bias: what the learned :math:`b`, one number for each field, starts with.

    Shape: (B, field.channels, H, W) to the same.

    >>> from evolvent.groups import Field, cyclic, irrep
    >>> vectors = Field(irrep(cyclic(8), 1), 1)
    >>> NormActivation(vectors, bias=1.0)(torch.tensor([3.0, 4.0]).view(1, 2, 1, 1)).flatten().tolist()
    [2.4..., 3.2...]
    """

    def __init__(self, field: Field, bias: float = 0.1) -> None:
        super().__init__()
        check_fields(self, field)
        check_orthogonal(field, "NormActivation")
        self.in_field = self.out_field = field
        self.bias = nn.Parameter(torch.full((field.multiplicity,), float(bias)))

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, "NormActivation")
        v = self.in_field.fibres(u)
        dtype = torch.promote_types(v.dtype, self.bias.dtype)
        wide = v.to(torch.promote_types(dtype, torch.float32))  # half precision has no 1e-12
        length = (wide.square().sum(dim=2, keepdim=True) + 1e-12).sqrt()
        shorter = F.relu(1 - self.bias.view(-1, 1, 1, 1) / length)
        return (wide * shorter).to(u.dtype).flatten(1, 2)

    def extra_repr(self) -> str:
        return str(self.in_field)


class FieldDropout(nn.Module):
    """Drops whole fields in training: all channels at all pixels, and scales the others up.

    Args:
        field: how features transform.
        share: of the fields that is dropped.

    Shape: (B, field.channels, H, W) to the same.

    >>> from evolvent.groups import cyclic, regular_fields
    >>> dropped = FieldDropout(regular_fields(cyclic(4), 64), 0.5)(torch.ones(1, 256, 2, 2))
    >>> sorted(set(dropped.view(64, -1).mean(1).tolist()))
    [0.0, 2.0]
    """

    def __init__(self, field: Field, share: float = 0.5) -> None:
        super().__init__()
        check_fields(self, field)
        check_share(share=share)
        self.in_field = self.out_field = field
        self.dropout = nn.Dropout2d(share)

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, "FieldDropout")
        height = self.in_field.size * u.shape[2]
        return self.dropout(u.reshape(u.shape[0], self.in_field.multiplicity, height, u.shape[3])).reshape(u.shape)

    def extra_repr(self) -> str:
        return str(self.in_field)
