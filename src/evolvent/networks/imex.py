"""Implicit-explicit networks (Haber et al. 2019)."""

from __future__ import annotations

from evolvent.dynamics import ReactionDiffusion
from evolvent.evolution import Evolution
from evolvent.integrators import ImexEuler
from evolvent.networks._units import Unit, unit_family


@unit_family("imex", papers=("haber2019",), recipe="mnist-families", norm="batch", step_size=0.3)
def imex(unit: Unit) -> Evolution:
    r"""IMEX network: explicit reaction, implicit diffusion, so that every layer sees the whole image.

    .. math:: (I + h L_j)\, u_{j+1} = u_j + h\, f_j(u_j), \qquad
              f_j(u) = -K_j^\top \sigma(\mathcal N(K_j u) + b_j)

    Haber, Lensink, Treister, Ruthotto 2019. :math:`L_j = D_j^\top D_j` is a depthwise convolution with periodic
    boundary; the system is solved by FFT in :math:`O(N \log N)`.
    """
    blocks = [ReactionDiffusion(unit.width, **unit.layer) for _ in range(unit.blocks)]
    return Evolution(blocks, ImexEuler(), step_size=unit.step_size)
