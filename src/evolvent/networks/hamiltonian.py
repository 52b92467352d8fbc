"""Hamiltonian networks (Chang et al. 2018), as used by Bohn, Griebel, Kannan 2021."""

from __future__ import annotations

from typing import Literal

from torch import nn

from evolvent._core.errors import ConfigError
from evolvent.dynamics import Hamiltonian
from evolvent.dynamics.normalisation import Norm
from evolvent.evolution import Evolution
from evolvent.integrators import Verlet
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, check_positive, per_unit, plain_conv


@register_family("hamiltonian", papers=("bohn2021", "chang2018"), recipe="mnist-hamiltonian")
def hamiltonian(
    num_classes: int = 10,
    in_channels: int = 3,
    image_size: int | tuple[int, int] = 32,
    *,
    channels: tuple[int, ...] = (32, 64, 112),
    blocks: int | tuple[int, ...] = 6,
    step_size: float = 0.1,
    readout: Literal["classification", "segmentation"] = "classification",
    head_pool: int = 2,
    dropout: float = 0.0,
    bias: bool = False,
    norm: Norm | None = None,
) -> ImageNetwork:
    r"""Hamiltonian network: feature halves that exchange energy, advanced by Verlet steps.

    .. math::
        Y_{j+1} = Y_j + h K_{j1}^\top \sigma(K_{j1} Z_j + b_{j1}), \qquad
        Z_{j+1} = Z_j - h K_{j2}^\top \sigma(K_{j2} Y_{j+1} + b_{j2})

    Eq. 2.6 of Bohn, Griebel, Kannan 2021, after Chang et al. 2018. A 3x3 convolution lifts the image; between units,
    average pooling by 2 and a 1x1 convolution with ReLU raise the channels; segmentation leaves the pooling out.
    The paper prints no step size beyond "low" (and 0.15 in one experiment); 0.1 is our choice.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        image_size: height and width of an image; the classifier's linear map depends on them.
        channels: even number of feature maps of each unit.
        blocks: Verlet steps of each unit, one number for all or one for each.
        step_size: :math:`h`.
        readout: one class per image, or one per pixel.
        head_pool: average pooling before the linear map.
        dropout: share of pooled features dropped in training.
        bias, norm: learn :math:`b_{ji}`, normalise inside the blocks; the paper's parameter counts hold without.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("hamiltonian74").parameters())
    504938
    """
    if any(c % 2 or c < 2 for c in channels) or not channels:
        raise ConfigError(f"hamiltonian splits channels in halves, so each must be even, got {tuple(channels)}.")
    check_positive(num_classes=num_classes, in_channels=in_channels, image_size=image_size, head_pool=head_pool)
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    pooled = readout == "classification"
    body: list[nn.Module] = []
    for unit, (width, count) in enumerate(zip(channels, per_unit(blocks, len(channels)), strict=True)):
        if unit:
            body.append(_raise_channels(channels[unit - 1], width, pooled))
        dynamics = [Hamiltonian(width // 2, bias=bias, norm=norm) for _ in range(count)]
        body.append(Evolution(dynamics, Verlet(), step_size=step_size))
    stem = plain_conv(in_channels, channels[0])
    if not pooled:
        return ImageNetwork(stem, body, nn.Conv2d(channels[-1], num_classes, 1), in_channels=in_channels)
    shrink = 2 ** (len(channels) - 1)
    final = (size[0] // shrink, size[1] // shrink)
    head = PooledLinear(channels[-1], num_classes, size=final, pool=head_pool, dropout=dropout)
    return ImageNetwork(stem, body, head, in_channels=in_channels, image_size=size)


def _raise_channels(before: int, after: int, pooled: bool) -> nn.Sequential:
    pool = [nn.AvgPool2d(2)] if pooled else []
    return nn.Sequential(*pool, plain_conv(before, after, 1), nn.ReLU())


register_member("hamiltonian74", "hamiltonian", recipe="pide-table1-cifar10", channels=(32, 64, 112), blocks=6)
