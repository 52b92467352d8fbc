"""Hamiltonian and parabolic networks whose answers do not change when the image is turned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Len
from torch import nn

from evolvent._core.checks import check_even
from evolvent.dynamics import Hamiltonian, Parabolic
from evolvent.dynamics.layers import LayerOptions
from evolvent.evolution import Evolution
from evolvent.groups import Field, regular_fields, scalars
from evolvent.integrators import Euler, Verlet
from evolvent.networks._options import Blocks, Count, ImageOptions, StepSize
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, per_unit
from evolvent.networks.equivariant import read_group
from evolvent.operators.differential import (
    FieldActivation,
    FieldLinear,
    FieldPooling,
    OrientationPooling,
    SteerablePDO,
)


@dataclass(frozen=True, kw_only=True)
class EquivariantFlowOptions(ImageOptions):
    """The options of networks over regular fields."""

    group: Annotated[Literal["C4", "C8", "D4"], "rotations, and for D4 mirrorings, that answers ignore"] = "C8"
    fields: Annotated[tuple[Count, ...], Len(1), "regular fields of each unit"] = (4, 8, 12)
    blocks: Blocks = 6
    step_size: StepSize = 0.1
    norm: Annotated[Literal["batch"] | None, "normalisation inside the blocks, or none"] = None
    bias: Annotated[bool, "learn a bias b inside the blocks, one number per field"] = False

    @property
    def layer(self) -> LayerOptions:
        """The options that all dynamics take."""
        return {"operator": f"steerable_{self.group.lower()}", "norm": self.norm, "bias": self.bias}


@dataclass(frozen=True, kw_only=True)
class EquivariantDiffusionOptions(EquivariantFlowOptions):
    step_size: StepSize = 0.3
    norm: Annotated[Literal["batch"] | None, "normalisation inside the blocks, or none"] = "batch"


@register_family(
    "equivariant_hamiltonian",
    EquivariantFlowOptions,
    papers=("jenner2022", "chang2018", "bohn2021"),
    recipe="equivariant-flows",
)
def equivariant_hamiltonian(options: EquivariantFlowOptions) -> ImageNetwork:
    r"""Equivariant Hamiltonian network: feature halves exchange energy, and turn with the image.

    .. math::
        Y_{j+1} = Y_j + h K_{j1}^\top \sigma(K_{j1} Z_j + b_{j1}), \qquad
        Z_{j+1} = Z_j - h K_{j2}^\top \sigma(K_{j2} Y_{j+1} + b_{j2}), \qquad
        K_{ji}\, \rho(g) = \rho(g)\, K_{ji}

    The network of :func:`~evolvent.networks.hamiltonian` with steerable differential operators (Jenner and Weiler 2022)
    in place of convolutions, between regular fields. Its answers do not change when the image is turned by quarter
    turns, and for D4 mirrored; by other rotations of the group they change little. The composition is ours.

    Shape: (B, in_channels, H, W) to (B, num_classes).

    >>> import torch, evolvent as ev
    >>> model = ev.create_model("equivariant_hamiltonian", fields=(2, 4), blocks=1).double().eval()
    >>> x = torch.randn(1, 3, 12, 12, dtype=torch.float64)
    >>> torch.allclose(model(x.rot90(1, (2, 3))), model(x), rtol=1e-10)
    True
    """

    def make_unit(field: Field, blocks: int) -> Evolution:
        check_even(fields=field.multiplicity)
        steps = [Hamiltonian(field.channels // 2, **options.layer) for _ in range(blocks)]
        return Evolution(steps, Verlet(), step_size=options.step_size)

    return _network_over_fields(options, make_unit)


@register_family(
    "equivariant_parabolic",
    EquivariantDiffusionOptions,
    papers=("jenner2022", "ruthotto2020"),
    recipe="equivariant-flows",
)
def equivariant_parabolic(options: EquivariantDiffusionOptions) -> ImageNetwork:
    r"""Equivariant parabolic network: features diffuse, and turn with the image.

    .. math:: u_{j+1} = u_j - h K_j^\top \sigma(\mathcal N(K_j u_j) + b_j), \qquad K_j\, \rho(g) = \rho(g)\, K_j

    The network of :func:`~evolvent.networks.parabolic` with steerable differential operators (Jenner and Weiler 2022),
    as in :func:`~evolvent.networks.equivariant_hamiltonian`.

    Shape: (B, in_channels, H, W) to (B, num_classes).
    """

    def make_unit(field: Field, blocks: int) -> Evolution:
        steps = [Parabolic(field.channels, **options.layer) for _ in range(blocks)]
        return Evolution(steps, Euler(), step_size=options.step_size)

    return _network_over_fields(options, make_unit)


def _network_over_fields(options: EquivariantFlowOptions, make_unit: Callable[[Field, int], Evolution]) -> ImageNetwork:
    """A steerable operator lifts the image; between units, average pooling by 2 and a linear map with ReLU raise the
    number of fields; the head sees the largest orientation of each, averaged over the image."""
    group = read_group(options.group)
    fields = [regular_fields(group, count) for count in options.fields]
    counts = per_unit(options.blocks, len(fields))
    body: list[nn.Module] = [make_unit(fields[0], counts[0])]
    for before, after, blocks in zip(fields[:-1], fields[1:], counts[1:], strict=True):
        body += [_transition(before, after), make_unit(after, blocks)]
    head = nn.Sequential(
        OrientationPooling(fields[-1]),
        PooledLinear(options.fields[-1], options.num_classes, dropout=options.dropout),
    )
    stem = SteerablePDO(scalars(group, options.in_channels), fields[0])
    return ImageNetwork(stem, body, head, in_channels=options.in_channels)


def _transition(before: Field, after: Field) -> nn.Module:
    return nn.Sequential(FieldPooling(before, pad=True), FieldLinear(before, after), FieldActivation(after))
