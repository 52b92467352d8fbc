"""Nonlocal Hamiltonian networks (Bohn, Griebel, Kannan 2021)."""

from __future__ import annotations

from torch import nn

from evolvent._core.errors import ConfigError
from evolvent.dynamics import Hamiltonian
from evolvent.evolution import Evolution
from evolvent.integrators import Verlet
from evolvent.networks._registry import register_member
from evolvent.networks._units import Unit, unit_family
from evolvent.networks.nonlocal_block import NonlocalBlock, NonlocalName

_BEFORE = 2  # blocks of a unit that come before its nonlocal block


@unit_family("nonlocal_hamiltonian", papers=("bohn2021", "chang2018"), recipe="pide-table1-cifar10")
def nonlocal_hamiltonian(
    unit: Unit,
    *,
    nonlocal_operator: NonlocalName = "diffusion",
    stages: int = 2,
    subsample: int = 2,
    scale: float = 1.0,
) -> list[nn.Module]:
    r"""Nonlocal Hamiltonian network: after two blocks of each unit, every pixel hears of every other.

    .. math::
        Y_{j+1} = Y_j + h K_{j1}^\top \sigma(K_{j1} Z_j + b_{j1}), \qquad
        Z_{j+1} = Z_j - h K_{j2}^\top \sigma(K_{j2} Y_{j+1} + b_{j2}), \qquad
        B_k = B_{k-2} + h\, \mathcal K_k[\mathcal O_X B_{k-1}]

    Bohn, Griebel, Kannan 2021: the :func:`~evolvent.networks.hamiltonian` network with a
    :class:`~evolvent.networks.NonlocalBlock` in each unit. Their parameter counts hold without bias and normalisation
    in the Hamiltonian blocks. They print no step size beyond "low" and no :math:`\lambda`; the defaults are our choice.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("nonlocal_hamiltonian74").parameters())
    558762

    Args:
        nonlocal_operator: :math:`\mathcal O`, one of ``"diffusion"`` (:math:`\mathcal L`), ``"fractional"``
            (:math:`(-\Delta)^{1/2}`), ``"riesz"`` (:math:`(-\Delta)^{-1/2}`) and ``"log"`` (:math:`(-\Delta)^{-1}`).
        stages: stages of each nonlocal block.
        subsample: pool size inside the nonlocal blocks; 2 for CIFAR, 4 for STL-10 and 3 for BDD100K in the paper.
        scale: :math:`\lambda` of the kernel.
    """
    _check(unit, subsample)
    h, first = unit.step_size, min(_BEFORE, unit.blocks)
    block = NonlocalBlock(unit.width, nonlocal_operator, stages=stages, subsample=subsample, step_size=h, scale=scale)
    runs = [
        Evolution([Hamiltonian(unit.width // 2, **unit.layer) for _ in range(count)], Verlet(), step_size=h)
        for count in (first, unit.blocks - first)
        if count
    ]
    return [runs[0], block, *runs[1:]]


def _check(unit: Unit, subsample: int) -> None:
    if unit.width % 2:
        raise ConfigError(
            f"nonlocal_hamiltonian splits channels in halves, so each number must be even, got {unit.width}."
        )
    if unit.size is not None and min(unit.size) < subsample:
        raise ConfigError(
            f"images come down to {unit.size} pixels, where squares of subsample = {subsample} do not fit. "
            "Use a smaller subsample or larger images."
        )


register_member("nonlocal_hamiltonian74", "nonlocal_hamiltonian", channels=(32, 64, 112), blocks=6)
register_member("fractional_hamiltonian74", "nonlocal_hamiltonian", nonlocal_operator="fractional", blocks=6)
register_member("riesz_hamiltonian74", "nonlocal_hamiltonian", nonlocal_operator="riesz", blocks=6)
register_member("log_hamiltonian74", "nonlocal_hamiltonian", nonlocal_operator="log", blocks=6)
