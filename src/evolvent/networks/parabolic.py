"""Networks that diffuse features: explicitly (Ruthotto and Haber 2020), or implicitly (Haber et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from evolvent.dynamics import Parabolic, ReactionDiffusion
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, ImexEuler
from evolvent.networks._options import NormOption, StepSize
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import ImageNetwork
from evolvent.networks._units import Unit, UnitOptions, unit_network


@dataclass(frozen=True, kw_only=True)
class DiffusionOptions(UnitOptions):
    step_size: StepSize = 0.3
    norm: NormOption = "batch"


@register_family("parabolic", DiffusionOptions, papers=("ruthotto2020",), recipe="mnist-families")
def parabolic(options: DiffusionOptions) -> ImageNetwork:
    r"""Parabolic network: features diffuse, so that small changes of the image die out.

    .. math:: u_{j+1} = u_j - h K_j^\top \sigma(\mathcal N(K_j u_j) + b_j)

    Ruthotto and Haber 2020, a network from the heat equation. Without normalisation a small enough step contracts:
    :math:`|u(T) - v(T)| \le |u(0) - v(0)|`.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.
    """

    def make_unit(unit: Unit) -> list[nn.Module]:
        blocks = [Parabolic(unit.width, **options.layer) for _ in range(unit.blocks)]
        return [Evolution(blocks, Euler(), step_size=options.step_size)]

    return unit_network(options, make_unit)


@register_family("imex", DiffusionOptions, papers=("haber2019",), recipe="mnist-families")
def imex(options: DiffusionOptions) -> ImageNetwork:
    r"""IMEX network: explicit reaction, implicit diffusion, so that every layer sees the whole image.

    .. math:: (I + h L_j)\, u_{j+1} = u_j + h\, f_j(u_j), \qquad
              f_j(u) = -K_j^\top \sigma(\mathcal N(K_j u) + b_j)

    Haber, Lensink, Treister, Ruthotto 2019. :math:`L_j = D_j^\top D_j` is a depthwise convolution with periodic
    boundary; the system is solved by FFT in :math:`O(N \log N)`.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.
    """

    def make_unit(unit: Unit) -> list[nn.Module]:
        blocks = [ReactionDiffusion(unit.width, **options.layer) for _ in range(unit.blocks)]
        return [Evolution(blocks, ImexEuler(), step_size=options.step_size)]

    return unit_network(options, make_unit)


register_member("lean_parabolic", "parabolic", papers=("ephrath2020",), operator="lean")
register_member("lean5_parabolic", "parabolic", papers=("ephrath2020",), operator="lean5")
register_member("multigrid_parabolic", "parabolic", papers=("eliasof2023",), operator="multigrid")
