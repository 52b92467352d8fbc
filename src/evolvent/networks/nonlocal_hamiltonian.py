"""Nonlocal Hamiltonian networks (Bohn, Griebel, Kannan 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt
from torch import nn

from evolvent._core.checks import check_even
from evolvent._core.errors import ConfigError
from evolvent.dynamics import Hamiltonian
from evolvent.evolution import Evolution
from evolvent.integrators import Verlet
from evolvent.networks._options import Count
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import ImageNetwork
from evolvent.networks._units import Unit, UnitOptions, unit_network
from evolvent.networks.nonlocal_block import NonlocalBlock, NonlocalName

_BEFORE = 2  # blocks of a unit that come before its nonlocal block


@dataclass(frozen=True, kw_only=True)
class NonlocalHamiltonianOptions(UnitOptions):
    nonlocal_operator: Annotated[
        NonlocalName, "the integral operator O: L, (-Δ)^(1/2), (-Δ)^(-1/2) or (-Δ)^(-1), in this order"
    ] = "diffusion"
    stages: Annotated[Count, "stages of each nonlocal block"] = 2
    subsample: Annotated[Count, "pool size inside the nonlocal blocks; in the paper 2, 3 or 4 by data set"] = 2
    scale: Annotated[float, Gt(0), "scale λ of the kernel"] = 1.0


@register_family(
    "nonlocal_hamiltonian",
    NonlocalHamiltonianOptions,
    papers=("bohn2021", "chang2018"),
    recipe="pide-table1-cifar10",
)
def nonlocal_hamiltonian(options: NonlocalHamiltonianOptions) -> ImageNetwork:
    r"""Nonlocal Hamiltonian network: after two blocks of each unit, every pixel depends on every other.

    .. math::
        Y_{j+1} = Y_j + h K_{j1}^\top \sigma(K_{j1} Z_j + b_{j1}), \qquad
        Z_{j+1} = Z_j - h K_{j2}^\top \sigma(K_{j2} Y_{j+1} + b_{j2}), \qquad
        B_k = B_{k-2} + h\, \mathcal K_k[\mathcal O_X B_{k-1}]

    Bohn, Griebel, Kannan 2021: the :func:`~evolvent.networks.hamiltonian` network with a
    :class:`~evolvent.networks.NonlocalBlock` in each unit. Their parameter counts hold without bias and normalisation
    in the Hamiltonian blocks. They print no step size beyond "low" and no :math:`\lambda`; the defaults are our choice.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("nonlocal_hamiltonian74").parameters())
    558762
    """

    def make_unit(unit: Unit) -> list[nn.Module]:
        _check(unit, options.subsample)
        first = min(_BEFORE, unit.blocks)
        block = NonlocalBlock(
            unit.width,
            options.nonlocal_operator,
            stages=options.stages,
            subsample=options.subsample,
            step_size=options.step_size,
            scale=options.scale,
        )
        runs = [_evolution(unit.width, count, options) for count in (first, unit.blocks - first) if count]
        return [runs[0], block, *runs[1:]]

    return unit_network(options, make_unit)


def _evolution(width: int, blocks: int, options: UnitOptions) -> Evolution:
    steps = [Hamiltonian(width // 2, **options.layer) for _ in range(blocks)]
    return Evolution(steps, Verlet(), step_size=options.step_size)


def _check(unit: Unit, subsample: int) -> None:
    check_even(channels=unit.width)
    if unit.size is not None and min(unit.size) < subsample:
        raise ConfigError(
            f"the feature maps shrink to {unit.size} pixels, too few for subsample = {subsample}. "
            "Use a smaller subsample or larger images."
        )


register_member("nonlocal_hamiltonian74", "nonlocal_hamiltonian", channels=(32, 64, 112), blocks=6)
register_member("fractional_hamiltonian74", "nonlocal_hamiltonian", nonlocal_operator="fractional", blocks=6)
register_member("riesz_hamiltonian74", "nonlocal_hamiltonian", nonlocal_operator="riesz", blocks=6)
register_member("log_hamiltonian74", "nonlocal_hamiltonian", nonlocal_operator="log", blocks=6)
