"""Hamiltonian networks (Chang et al. 2018), as used by Bohn, Griebel, Kannan 2021."""

from __future__ import annotations

from evolvent._core.errors import ConfigError
from evolvent.dynamics import Hamiltonian
from evolvent.dynamics.normalisation import Norm
from evolvent.evolution import Evolution
from evolvent.integrators import Verlet
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import ImageNetwork
from evolvent.networks._units import ImageSize, Readout, unit_network


@register_family("hamiltonian", papers=("bohn2021", "chang2018"), recipe="mnist-hamiltonian")
def hamiltonian(
    num_classes: int = 10,
    in_channels: int = 3,
    image_size: ImageSize = 32,
    *,
    channels: tuple[int, ...] = (32, 64, 112),
    blocks: int | tuple[int, ...] = 6,
    step_size: float = 0.1,
    readout: Readout = "classification",
    head_pool: int = 2,
    dropout: float = 0.0,
    operator: str = "full",
    norm: Norm | None = None,
    bias: bool = False,
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
        operator: kind of :math:`K_{ji}`.
        norm, bias: normalise inside the blocks, learn :math:`b_{ji}`; the paper's parameter counts hold without.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("hamiltonian74").parameters())
    504938
    """
    if any(c % 2 or c < 2 for c in channels) or not channels:
        raise ConfigError(f"hamiltonian splits channels in halves, so each must be even, got {tuple(channels)}.")

    def make_evolution(width: int, count: int) -> Evolution:
        blocks = [Hamiltonian(width // 2, operator=operator, norm=norm, bias=bias) for _ in range(count)]
        return Evolution(blocks, Verlet(), step_size=step_size)

    return unit_network(
        make_evolution,
        num_classes=num_classes,
        in_channels=in_channels,
        image_size=image_size,
        channels=channels,
        blocks=blocks,
        readout=readout,
        head_pool=head_pool,
        dropout=dropout,
    )


register_member("hamiltonian74", "hamiltonian", recipe="pide-table1-cifar10", channels=(32, 64, 112), blocks=6)
