"""Hyperbolic networks (Ruthotto and Haber 2020), leapfrog networks and fully reversible wavelet networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent._core.state import State
from evolvent.dynamics import SecondOrder
from evolvent.dynamics.layers import LayerOptions
from evolvent.evolution import Evolution
from evolvent.integrators import Leapfrog
from evolvent.networks._options import (
    Bias,
    Blocks,
    HeadPool,
    ImageOptions,
    ImageSize,
    NormOption,
    Operator,
    StepSize,
    Width,
)
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, height_and_width, per_unit, plain_conv
from evolvent.networks._units import UnitOptions, unit_network
from evolvent.operators import HaarTransform


@dataclass(frozen=True, kw_only=True)
class HyperbolicOptions(UnitOptions):
    step_size: StepSize = 0.3
    norm: NormOption = "batch"


@register_family("hyperbolic", HyperbolicOptions, papers=("ruthotto2020",), recipe="mnist-families")
def hyperbolic(options: HyperbolicOptions) -> ImageNetwork:
    r"""Hyperbolic network: features oscillate like a membrane, by leapfrog steps that can be undone.

    .. math:: u_{j+1} = 2 u_j - u_{j-1} - h^2 K_j^\top \sigma(\mathcal N(K_j u_j) + b_j)

    Ruthotto and Haber 2020, a network from the wave equation :math:`u'' = -K^\top \sigma(\mathcal N(K u) + b)`.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.
    """
    return unit_network(options, lambda unit: [_waves(unit.width, unit.blocks, options)])


@dataclass(frozen=True, kw_only=True)
class LeapfrogOptions(UnitOptions):
    step_size: StepSize = 0.3
    bias: Bias = True


@register_family("leapfrog", LeapfrogOptions, papers=("chang2018",), recipe="mnist-families")
def leapfrog(options: LeapfrogOptions) -> ImageNetwork:
    r"""Leapfrog network: the hyperbolic network without normalisation, with bias.

    .. math:: u_{j+1} = 2 u_j - u_{j-1} - h^2 K_j^\top \sigma(K_j u_j + b_j)

    Chang et al. 2018, their second reversible architecture.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.
    """
    return unit_network(options, lambda unit: [_waves(unit.width, unit.blocks, options)])


@dataclass(frozen=True, kw_only=True)
class WaveletOptions(ImageOptions):
    image_size: ImageSize = 32
    width: Width = 8
    blocks: Blocks = (4, 4, 4)
    step_size: StepSize = 0.3
    head_pool: HeadPool = 2
    operator: Operator = "full"
    norm: NormOption = "batch"
    bias: Bias = False


@register_family("hyperbolic_wavelet", WaveletOptions, papers=("lensink2019",), recipe="mnist-families")
def hyperbolic_wavelet(options: WaveletOptions) -> ImageNetwork:
    r"""Fully hyperbolic network: leapfrog units joined by Haar wavelets, reversible from end to end.

    .. math:: u_{j+1} = 2 u_j - u_{j-1} - h^2 K_j^\top \sigma(\mathcal N(K_j u_j) + b_j), \qquad
              (u, v) \leftarrow (W u, W v) \text{ between units}

    Lensink, Haber, Peters 2019. The orthogonal Haar transform :math:`W` halves the resolution and makes four times as
    many channels, so nothing is lost, and position and velocity both go on: training memory need not grow with depth.
    One number of ``blocks`` stands for three units. The first unit has ``width`` feature maps, each later one four
    times as many. Height and width of an image must be divisible by 2 for every coarsening. Wavelet coefficients
    oscillate around zero, so that the average over a whole image would leave little of them; hence ``head_pool``.

    Shape: (B, in_channels, H, W) to (B, num_classes).
    """
    counts = per_unit(options.blocks, 3 if isinstance(options.blocks, int) else len(options.blocks))
    size = height_and_width(options.image_size)
    coarsest = 2 ** (len(counts) - 1)
    if size[0] % coarsest or size[1] % coarsest:
        raise ConfigError(
            f"{len(counts)} units halve the image {len(counts) - 1} times, so its height and width must be multiples "
            f"of {coarsest}, got {size}. Pad or crop the images, or use fewer units (`blocks`)."
        )
    body: list[nn.Module] = [_AtRest()]
    for level, count in enumerate(counts):
        if level:
            body.append(_HaarOfPair())
        body.append(_waves(options.width * 4**level, count, options))
    body.append(_Position())
    last, final = options.width * coarsest**2, (size[0] // coarsest, size[1] // coarsest)
    head = PooledLinear(last, options.num_classes, size=final, pool=options.head_pool, dropout=options.dropout)
    stem = plain_conv(options.in_channels, options.width)
    return ImageNetwork(stem, body, head, in_channels=options.in_channels, image_size=size)


def _waves(width: int, blocks: int, options: UnitOptions | WaveletOptions) -> Evolution:
    layer: LayerOptions = {"operator": options.operator, "norm": options.norm, "bias": options.bias}
    return Evolution([SecondOrder(width, **layer) for _ in range(blocks)], Leapfrog(), step_size=options.step_size)


class _AtRest(nn.Module):
    """Position and velocity of features that start at rest."""

    def forward(self, u: Tensor) -> State:
        return u, torch.zeros_like(u)


class _HaarOfPair(nn.Module):
    """The Haar transform of position and velocity."""

    def __init__(self) -> None:
        super().__init__()
        self.transform = HaarTransform()

    def forward(self, state: Sequence[Tensor]) -> State:
        return tuple(self.transform(part) for part in state)


class _Position(nn.Module):
    """The position of a pair."""

    def forward(self, state: Sequence[Tensor]) -> Tensor:
        return state[0]


register_member("lean_hyperbolic", "hyperbolic", papers=("ephrath2020",), operator="lean")
register_member("lean5_hyperbolic", "hyperbolic", papers=("ephrath2020",), operator="lean5")
register_member("multigrid_hyperbolic", "hyperbolic", papers=("eliasof2023",), operator="multigrid")
