"""Parabolic networks (Ruthotto and Haber 2020)."""

from __future__ import annotations

from evolvent.dynamics import Parabolic
from evolvent.evolution import Evolution
from evolvent.integrators import Euler
from evolvent.networks._units import Unit, unit_family


@unit_family("parabolic", papers=("ruthotto2020",), recipe="mnist-families", norm="batch", step_size=0.3)
def parabolic(unit: Unit) -> Evolution:
    r"""Parabolic network: features diffuse, so that small changes of the image die out.

    .. math:: u_{j+1} = u_j - h K_j^\top \sigma(\mathcal N(K_j u_j) + b_j)

    Ruthotto and Haber 2020, a network from the heat equation. Without normalisation a small enough step contracts:
    :math:`|u(T) - v(T)| \le |u(0) - v(0)|`.
    """
    blocks = [Parabolic(unit.width, **unit.layer) for _ in range(unit.blocks)]
    return Evolution(blocks, Euler(), step_size=unit.step_size)
