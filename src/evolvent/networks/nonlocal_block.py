"""The nonlocal block of Bohn, Griebel, Kannan 2021, for any network of images."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from torch import Tensor, nn
from torch.func import functional_call

from evolvent._core.checks import check_choice, check_positive, check_whole
from evolvent._core.errors import ConfigError
from evolvent.dynamics import NonlocalSystem
from evolvent.groups import Field
from evolvent.integrators import Verlet
from evolvent.operators import (
    FractionalLaplacian,
    InverseFractionalLaplacian,
    NonlocalDiffusion,
    NonlocalOperator,
    Pointwise,
)
from evolvent.operators.convolution import pointwise
from evolvent.operators.differential import FieldActivation, FieldBatchNorm, FieldLinear, NormActivation

NonlocalName: TypeAlias = Literal["diffusion", "fractional", "riesz", "log"]


class NonlocalBlock(nn.Module):
    r"""Stages in which every pixel depends on every other, with skip connections; the shape is kept.

    .. math:: B_k = B_{k-2} + h\, \mathcal K_k[\mathcal O_X B_{k-1}], \qquad B_0 = B_{-1} = X, \qquad
              \mathcal K_k = \mathcal B \circ \mathrm{ReLU} \circ (C \times C \text{ convolution, } 1 \times 1)

    Eq. 4.1, 4.4, 4.5 and 4.6 of Bohn, Griebel, Kannan 2021, for :math:`\mathcal O` one of :math:`\mathcal L`,
    :math:`(-\Delta)^{1/2}`, :math:`(-\Delta)^{-1/2}` and :math:`(-\Delta)^{-1}`. Each pair of stages is a Verlet step
    of their system 4.3 from :math:`V = -W = X`, with the kernel of :math:`X` in all stages. The paper prints two
    stages; that further ones are further Verlet steps is our reading. Normalisations whose stages add up to the result
    (the last, and every second before it) start with the factor zero (Wang et al. 2018), which the paper does not
    mention: at first the block is the identity.

    Between fields all its maps commute with the group, and so does the block: exactly, with every element that moves
    pixels onto pixels. Fields whose channels are not only moved have a :class:`NormActivation` in place of the ReLU,
    which at first shortens nothing: how long vectors are there depends on the operator.

    Args:
        channels: number of feature maps, even; or the fields that they are, of even multiplicity.
        operator: ``"diffusion"``, ``"fractional"``, ``"riesz"`` or ``"log"``, or a nonlocal operator of your own, which
            then has its own ``subsample`` and ``scale``.
        stages: number of stages, at least 1.
        subsample: pool size for the strips that are summed over.
        step_size: :math:`h`.
        scale: :math:`\lambda` of the kernel.

    Shape: (B, channels, H, W) to the same.

    >>> import torch
    >>> NonlocalBlock(4, "riesz", subsample=2)(torch.randn(2, 4, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    >>> from evolvent.groups import cyclic, regular_fields
    >>> NonlocalBlock(regular_fields(cyclic(8), 2))(torch.randn(2, 16, 8, 8)).shape
    torch.Size([2, 16, 8, 8])
    """

    def __init__(
        self,
        channels: int | Field,
        operator: NonlocalName | NonlocalOperator = "diffusion",
        *,
        stages: int = 2,
        subsample: int = 1,
        step_size: float = 0.1,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        check_whole(stages=stages)
        check_positive(step_size=step_size)
        named = not isinstance(operator, NonlocalOperator)
        self.operator = make_nonlocal(operator, channels, subsample, scale) if named else operator
        self._check_operator(channels)
        self.outer = nn.ModuleList(OuterMap(channels, (stages - k) % 2 == 0) for k in range(stages))
        self.step_size = float(step_size)
        self.integrator = Verlet()

    def _check_operator(self, channels: int | Field) -> None:
        given = self.operator.channels if self.operator.field is None else self.operator.field
        if given != channels:
            wanted, found = (f"{c} channels" if isinstance(c, int) else str(c) for c in (channels, given))
            raise ConfigError(f"a block of {wanted} needs an operator of the same, got one of {found}.")

    def forward(self, x: Tensor) -> Tensor:
        act, h, state = self.operator.at(x), self.step_size, (x, x)
        last = len(self.outer) - 1
        for k in range(0, len(self.outer), 2):
            system = _Stages(self.outer[k], self.outer[min(k + 1, last)], act)
            if k == last:
                y, z = state
                return self.integrator.couplings(system, 0.0, h)[0].update(y, z)
            y, z = self.integrator.step(system, 0.0, state, h)
            state = (y, z)
        return state[1]

    def extra_repr(self) -> str:
        return f"stages={len(self.outer)}, step_size={self.step_size:g}"


def make_nonlocal(
    name: NonlocalName, channels: int | Field, subsample: int = 1, scale: float = 1.0
) -> NonlocalOperator:
    """One of the four operators of the paper's Table 1, by name."""
    check_choice("nonlocal operator", name, get_args(NonlocalName))
    if name == "diffusion":
        return NonlocalDiffusion(channels, scale=scale, subsample=subsample)
    if name == "fractional":
        return FractionalLaplacian(channels, 0.5, scale=scale, subsample=subsample)
    return InverseFractionalLaplacian(channels, 1.0 if name == "log" else 0.5, scale=scale, subsample=subsample)


class _Stages(NonlocalSystem):
    """The system with :class:`OuterMap` on both sides, which take the step size in."""

    def change_y(self, t: float, z: Tensor, h: float) -> Tensor:
        return self.first(self.act(z), h)

    def change_z(self, t: float, y: Tensor, h: float) -> Tensor:
        return self.second(self.act(y), h)


class OuterMap(nn.Sequential):
    r""":math:`h\, \mathcal K = h\, \mathcal B \circ \mathrm{ReLU} \circ K`, with :math:`h` inside :math:`\mathcal B`.

    Args:
        channels: number of feature maps, or the fields that they are.
        awake: start with the factor 1 of the normalisation; with 0, and so with the result 0, otherwise.

    Shape: (B, channels, H, W) to the same.
    """

    def __init__(self, channels: int | Field, awake: bool = True) -> None:
        if isinstance(channels, Field):
            moved = channels.representation.permutation is not None
            activation = FieldActivation(channels) if moved else NormActivation(channels, bias=0.0)
            conv, norm = FieldLinear(channels, channels), FieldBatchNorm(channels)
            scale = norm.norm.weight
        else:
            conv, activation, norm = Pointwise(channels, channels), nn.ReLU(), nn.BatchNorm2d(channels)
            nn.init.kaiming_normal_(conv.weight)
            scale = norm.weight
        nn.init.constant_(scale, float(awake))
        super().__init__(conv, activation, norm)

    def forward(self, input: Tensor, h: float = 1.0) -> Tensor:
        conv, activation, norm = self
        plain = isinstance(conv, Pointwise)
        mixed = pointwise(input, conv.weight, relu=True) if plain else activation(conv(input))
        scaled = {name: h * p for name, p in norm.named_parameters()}  # what is linear in the result
        return functional_call(norm, scaled, mixed)
