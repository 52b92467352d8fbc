"""Nonlocal Hamiltonian networks (Bohn, Griebel, Kannan 2021)."""

from __future__ import annotations

from torch import nn

from evolvent._core.errors import ConfigError
from evolvent.dynamics import Hamiltonian
from evolvent.dynamics.normalisation import Norm
from evolvent.evolution import Evolution
from evolvent.integrators import Verlet
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, check_positive, per_unit, plain_conv
from evolvent.networks._units import ImageSize, Readout
from evolvent.networks.nonlocal_block import NonlocalBlock, NonlocalName

_BEFORE = 2  # blocks of a unit that come before its nonlocal block


@register_family("nonlocal_hamiltonian", papers=("bohn2021", "chang2018"), recipe="pide-table1-cifar10")
def nonlocal_hamiltonian(
    num_classes: int = 10,
    in_channels: int = 3,
    image_size: ImageSize = 32,
    *,
    operator: NonlocalName = "diffusion",
    stages: int = 2,
    subsample: int = 2,
    scale: float = 1.0,
    channels: tuple[int, ...] = (32, 64, 112),
    blocks: int | tuple[int, ...] = 6,
    step_size: float = 0.1,
    readout: Readout = "classification",
    head_pool: int = 2,
    dropout: float = 0.0,
    norm: Norm | None = None,
    bias: bool = False,
) -> ImageNetwork:
    r"""Nonlocal Hamiltonian network: after two blocks of each unit, every pixel hears of every other.

    .. math::
        Y_{j+1} = Y_j + h K_{j1}^\top \sigma(K_{j1} Z_j + b_{j1}), \qquad
        Z_{j+1} = Z_j - h K_{j2}^\top \sigma(K_{j2} Y_{j+1} + b_{j2}), \qquad
        B_k = B_{k-2} + h\, \mathcal K_k[\mathcal O_X B_{k-1}]

    Bohn, Griebel, Kannan 2021: the :func:`~evolvent.networks.hamiltonian` network with a
    :class:`~evolvent.networks.NonlocalBlock` in each unit. Their parameter counts hold without bias and normalisation
    in the Hamiltonian blocks. They print no step size beyond "low" and no :math:`\lambda`; the defaults are our choice.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image; not used for segmentation.
        operator: :math:`\mathcal O`, one of ``"diffusion"`` (:math:`\mathcal L`), ``"fractional"``
            (:math:`(-\Delta)^{1/2}`), ``"riesz"`` (:math:`(-\Delta)^{-1/2}`) and ``"log"`` (:math:`(-\Delta)^{-1}`).
        stages: stages of each nonlocal block.
        subsample: pool size inside the nonlocal blocks; 2 for CIFAR, 4 for STL-10 and 3 for BDD100K in the paper.
        scale: :math:`\lambda` of the kernel.
        channels: feature maps of each unit, even.
        blocks: Hamiltonian blocks of each unit, one number for all or one for each.
        step_size: :math:`h`, of Hamiltonian and nonlocal blocks.
        readout: one class per image, or one per pixel.
        head_pool: average pooling before the linear map.
        dropout: share of pooled features dropped in training.
        norm, bias: normalisation inside the Hamiltonian blocks, learned :math:`b`.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.

    >>> sum(p.numel() for p in nonlocal_hamiltonian().parameters())
    558762
    """
    check_positive(num_classes=num_classes, in_channels=in_channels, image_size=image_size, channels=channels)
    pooled, body, before = readout == "classification", [], None
    for width, count in zip(channels, per_unit(blocks, len(channels)), strict=True):
        if before is not None:
            pool = [nn.AvgPool2d(2)] if pooled else []
            body.append(nn.Sequential(*pool, plain_conv(before, width, 1), nn.ReLU()))
        block = NonlocalBlock(width, operator, stages=stages, subsample=subsample, step_size=step_size, scale=scale)
        body += _unit(width, count, step_size, norm, bias, block)
        before = width
    stem = plain_conv(in_channels, channels[0])
    if not pooled:
        return ImageNetwork(stem, body, nn.Conv2d(channels[-1], num_classes, 1), in_channels=in_channels)
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    final = _coarsest(size, len(channels), subsample)
    check_positive(head_pool=head_pool)
    head = PooledLinear(channels[-1], num_classes, size=final, pool=head_pool, dropout=dropout)
    return ImageNetwork(stem, body, head, in_channels=in_channels, image_size=size)


def _unit(
    width: int, blocks: int, step_size: float, norm: Norm | None, bias: bool, nonlocal_block: NonlocalBlock
) -> list[nn.Module]:
    """Hamiltonian blocks with the nonlocal block after the second, or after the last if there are fewer."""
    first = min(_BEFORE, blocks)
    runs = [
        Evolution([Hamiltonian(width // 2, norm=norm, bias=bias) for _ in range(n)], Verlet(), step_size=step_size)
        for n in (first, blocks - first)
        if n
    ]
    return [runs[0], nonlocal_block, *runs[1:]]


def _coarsest(size: tuple[int, int], units: int, subsample: int) -> tuple[int, int]:
    final = (size[0] // 2 ** (units - 1), size[1] // 2 ** (units - 1))
    if min(final) < subsample:
        raise ConfigError(
            f"images of {size} pixels come down to {final}, where squares of subsample = {subsample} do not fit. "
            "Use a smaller subsample or larger images."
        )
    return final


register_member("nonlocal_hamiltonian74", "nonlocal_hamiltonian", channels=(32, 64, 112), blocks=6)
register_member("fractional_hamiltonian74", "nonlocal_hamiltonian", operator="fractional", blocks=6)
register_member("riesz_hamiltonian74", "nonlocal_hamiltonian", operator="riesz", blocks=6)
register_member("log_hamiltonian74", "nonlocal_hamiltonian", operator="log", blocks=6)
