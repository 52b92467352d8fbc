"""Hyperbolic networks (Ruthotto and Haber 2020) and their kin: leapfrog and fully reversible wavelet networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent._core.state import State
from evolvent.dynamics import SecondOrder
from evolvent.dynamics.layers import Norm
from evolvent.evolution import Evolution
from evolvent.integrators import Leapfrog
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, check_positive, per_unit, plain_conv
from evolvent.networks._units import ImageSize, Unit, unit_family
from evolvent.operators import HaarTransform


@unit_family("hyperbolic", papers=("ruthotto2020",), recipe="mnist-families", norm="batch", step_size=0.3)
def hyperbolic(unit: Unit) -> Evolution:
    r"""Hyperbolic network: features swing like a membrane, by leapfrog steps that can be undone.

    .. math:: u_{j+1} = 2 u_j - u_{j-1} - h^2 K_j^\top \sigma(\mathcal N(K_j u_j) + b_j)

    Ruthotto and Haber 2020, a network from the wave equation :math:`u'' = -K^\top \sigma(\mathcal N(K u) + b)`.
    """
    return _swing(unit)


@unit_family("leapfrog", papers=("chang2018",), recipe="mnist-families", bias=True, step_size=0.3)
def leapfrog(unit: Unit) -> Evolution:
    r"""Leapfrog network: the hyperbolic network without normalisation, with bias.

    .. math:: u_{j+1} = 2 u_j - u_{j-1} - h^2 K_j^\top \sigma(K_j u_j + b_j)

    Chang et al. 2018, their second reversible architecture.
    """
    return _swing(unit)


def _swing(unit: Unit) -> Evolution:
    blocks = [SecondOrder(unit.width, **unit.layer) for _ in range(unit.blocks)]
    return Evolution(blocks, Leapfrog(), step_size=unit.step_size)


@register_family("hyperbolic_wavelet", papers=("lensink2019",), recipe="mnist-families")
def hyperbolic_wavelet(
    num_classes: int = 10,
    in_channels: int = 3,
    image_size: ImageSize = 32,
    *,
    width: int = 8,
    blocks: int | tuple[int, ...] = (4, 4, 4),
    step_size: float = 0.3,
    head_pool: int = 2,
    dropout: float = 0.0,
    operator: str = "full",
    norm: Norm | None = "batch",
    bias: bool = False,
) -> ImageNetwork:
    r"""Fully hyperbolic network: leapfrog units joined by Haar wavelets, reversible from end to end.

    .. math:: u_{j+1} = 2 u_j - u_{j-1} - h^2 K_j^\top \sigma(\mathcal N(K_j u_j) + b_j), \qquad
              (u, v) \leftarrow (W u, W v) \text{ between units}

    Lensink, Haber, Peters 2019. The orthogonal Haar transform :math:`W` halves the resolution and takes four times as
    many channels, so nothing is lost, and position and velocity both go on: training memory need not grow with depth.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image, both divisible by 2 for every coarsening.
        width: feature maps of the first unit; each later unit has four times as many.
        blocks: leapfrog steps of each unit, one for each; one number stands for three units.
        step_size: :math:`h`.
        head_pool: average pooling before the linear map. Wavelet coefficients swing around zero, so the average over
            a whole image would leave little of them.
        dropout: share of pooled features dropped in training.
        operator: kind of :math:`K`.
        norm, bias: normalisation inside the blocks, learned :math:`b`.

    Shape: (B, in_channels, H, W) to (B, num_classes).
    """
    check_positive(num_classes=num_classes, in_channels=in_channels, image_size=image_size, width=width)
    check_positive(head_pool=head_pool)
    counts = per_unit(blocks, 3 if isinstance(blocks, int) else len(blocks))
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    coarsest = 2 ** (len(counts) - 1)
    if size[0] % coarsest or size[1] % coarsest:
        raise ConfigError(
            f"{len(counts)} units halve the image {len(counts) - 1} times, so its height and width must be multiples "
            f"of {coarsest}, got {size}. Pad or crop the images, or take fewer units by `blocks`."
        )
    body: list[nn.Module] = [_AtRest()]
    for level, count in enumerate(counts):
        if level:
            body.append(_HaarOfPair())
        unit = Unit(width * 4**level, count, step_size, operator, norm, bias)
        body.append(_swing(unit))
    body.append(_Position())
    final = (size[0] // coarsest, size[1] // coarsest)
    head = PooledLinear(width * coarsest**2, num_classes, size=final, pool=head_pool, dropout=dropout)
    return ImageNetwork(plain_conv(in_channels, width), body, head, in_channels=in_channels, image_size=size)


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
