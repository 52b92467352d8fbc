"""Equivariant networks as ordinary layers, for inference."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class HasOrdinaryForm(nn.Module, ABC):
    """A layer that can be written as ordinary layers once its weights are fixed."""

    @abstractmethod
    def dense(self) -> nn.Module:
        """Ordinary layers that do what this one does in evaluation."""


class FixedConvolution(nn.Conv2d):
    """An ordinary convolution without bias that knows its adjoint.

    Args:
        kernel: (C', C, size, size).
        padding: zeros on each side.
    """

    def __init__(self, kernel: Tensor, padding: int) -> None:
        out_channels, in_channels, size, _ = kernel.shape
        super().__init__(in_channels, out_channels, size, padding=padding, bias=False)
        self.weight, self._zeros = nn.Parameter(kernel.detach().clone()), padding

    def adjoint(self, v: Tensor) -> Tensor:
        r""":math:`K^\top v`."""
        return F.conv_transpose2d(v, self.weight, padding=self._zeros)

    def skew(self, u: Tensor) -> Tensor:
        r""":math:`(K - K^\top) u`."""
        return self(u) - self.adjoint(u)


class ChannelAffine(nn.Module):
    r"""A factor and a shift for each channel, :math:`v_c = a_c u_c + b_c`.

    Args:
        factor, shift: numbers (C,).

    Shape: (B, C, H, W) to the same.
    """

    def __init__(self, factor: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.factor, self.shift = nn.Parameter(factor.detach().clone()), nn.Parameter(shift.detach().clone())

    def forward(self, u: Tensor) -> Tensor:
        return torch.addcmul(self.shift.view(-1, 1, 1), self.factor.view(-1, 1, 1), u)

    def after(self, layer: nn.Module) -> nn.Module | None:
        """One layer that does both, if there is one."""
        if isinstance(layer, ChannelAffine):
            return ChannelAffine(self.factor * layer.factor, self.factor * layer.shift + self.shift)
        if not _is_plain_convolution(layer):
            return None
        weight = (layer.weight * self.factor.view(-1, 1, 1, 1)).detach()
        shift = self.shift if layer.bias is None else self.factor * layer.bias + self.shift
        made = copy.deepcopy(layer)
        made.weight, made.bias = nn.Parameter(weight), nn.Parameter(shift.detach())
        return made


def _is_plain_convolution(layer: nn.Module) -> TypeGuard[nn.Conv2d]:
    """Whether its answer is the convolution with its weight, and nothing else."""
    hooks = layer._forward_pre_hooks or layer._forward_hooks
    return type(layer) in (nn.Conv2d, FixedConvolution) and not hooks


def dense(network: nn.Module) -> nn.Module:
    """A copy of a network in evaluation mode: every equivariant layer as the ordinary layers that do the same.

    Normalisations become a factor and a shift for each channel, which convolutions right before them take in. Layers
    keep their names; where one was taken in, there is an ``nn.Identity``.

    >>> from evolvent.groups import cyclic, regular_fields, scalars
    >>> from evolvent.operators.differential import FieldBatchNorm, FieldLinear
    >>> field = regular_fields(cyclic(4), 2)
    >>> dense(nn.Sequential(FieldLinear(scalars(cyclic(4)), field), FieldBatchNorm(field)))
    Sequential(
      (0): FixedConvolution(1, 8, kernel_size=(1, 1), stride=(1, 1))
      (1): Identity()
    )
    """
    if isinstance(network, HasOrdinaryForm):
        return network.dense().eval()
    copied = type(network).__new__(type(network))
    vars(copied).update(vars(network))  # copy.copy refuses parametrised layers
    parts = {name: part and dense(part) for name, part in network._modules.items()}
    vars(copied)["_modules"] = _merged(parts) if type(network) is nn.Sequential else parts
    return copied.eval()


def _merged(parts: dict[str, nn.Module | None]) -> dict[str, nn.Module | None]:
    """The same layers, with factors and shifts taken into the layers before them."""
    kept, last = dict(parts), ""
    for name, part in parts.items():
        before = kept.get(last)
        both = part.after(before) if before is not None and isinstance(part, ChannelAffine) else None
        if both is None:
            last = name
        else:
            kept[last], kept[name] = both, nn.Identity()
    return kept
