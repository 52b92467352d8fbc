"""PR-Net (Kim et al. 2022): the features are the solution of a partial differential equation learned with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from torch import Tensor, nn

from evolvent._core.errors import ShapeError
from evolvent.networks._digit_skeleton import DigitOptions, digit_network, digit_stem, group_norm
from evolvent.networks._options import ImageSize
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork, height_and_width
from evolvent.networks.solution_block import COORDINATES, CoordinateConvolution, SolutionBlock, feature_size

Normalisation: TypeAlias = Literal["channel", "joint", "none"]
ACTIVATIONS = {"relu": nn.ReLU, "softplus": nn.Softplus}


class CoordinateField(nn.Module):
    r"""The network f of PR-Net for digits, :math:`f(h, d, t) = \sigma(\mathcal G_2 K_2\, \mathcal G_1 K_1 [h, d, t])`.

    Kim et al. 2022, Table 10. There :math:`\mathcal G_1` normalises every channel by itself, which removes a shift of
    the coordinates: :math:`f` depends on it only through the zeros around the image. :math:`\mathcal G_1` over all
    channels together (``norm="joint"``) keeps it.

    Args:
        channels: of the features.
        groups: of :math:`\mathcal G_2`.
        norm: what :math:`\mathcal G_1` normalises together; ``"none"`` leaves both normalisations out.
        activation: :math:`\sigma`. ReLU has no second derivative; with softplus f has all of them.
        padding_mode: what surrounds the image.

    Shape: (B, channels, H, W) and three times (1, 1, H, W) to (B, channels, H, W).
    """

    def __init__(
        self, channels: int, groups: int = 32, norm: Normalisation = "channel",
        activation: Literal["relu", "softplus"] = "relu", padding_mode: Literal["zeros", "circular"] = "zeros",
    ) -> None:  # fmt: skip
        super().__init__()
        total = channels + len(COORDINATES)
        self.conv1 = CoordinateConvolution(channels, len(COORDINATES), total, 3, padding_mode=padding_mode)
        self.conv2 = nn.Conv2d(total, channels, 3, padding=1, padding_mode=padding_mode)
        self.norm1, self.norm2, self.single = nn.Identity(), nn.Identity(), norm == "channel"
        if norm != "none":
            self.norm1 = nn.GroupNorm(total if norm == "channel" else 1, total)
            self.norm2 = group_norm(channels, groups)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, h: Tensor, x: Tensor, y: Tensor, t: Tensor) -> Tensor:
        if self.single and h.shape[-2:].numel() == 1:
            raise ShapeError(
                "maps of one pixel are left of these images, of which a normalisation of each channel leaves nothing. "
                "Give images of at least 10 pixels along one side, or norm='none'."
            )
        return self.activation(self.norm2(self.conv2(self.norm1(self.conv1(h, x, y, t)))))


@dataclass(frozen=True, kw_only=True)
class PrNetOptions(DigitOptions):
    image_size: ImageSize = 28
    norm: Annotated[Normalisation, "first normalisation: each channel alone (Table 10), all jointly, or none"] = (
        "channel"
    )
    activation: Annotated[Literal["relu", "softplus"], "softplus has all derivatives, ReLU one"] = "relu"


@register_family("prnet_mnist", PrNetOptions, papers=("kim2022", "chen2018"), recipe="prnet-table2-cpu")
def prnet_mnist(options: PrNetOptions) -> ImageNetwork:
    r"""PR-Net in the frame of ODE-Net: the solution of a learned equation in place of an ODE that is solved.

    .. math:: h(d, t) = f(h(0), d, t; \theta), \qquad
              h_t = \sum_{i,j} \alpha_{ij}\, h^i\, \partial_d^j h \text{ is learned at the same time}

    Kim et al. 2022, Table 2 and Table 10. The block is a :class:`~evolvent.networks.SolutionBlock`; the task ``prnet``
    trains it with the equation, which is not a part of the network. There are 212,260 parameters, as published (0.21M),
    and 108 for the points at which the block is evaluated.

    Shape: (B, in_channels, H, W) to (B, num_classes), H and W at least 10. Points are made for ``image_size``, and
    interpolated for other images.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("prnet_mnist").parameters())
    212368
    """
    stem = digit_stem(options)
    size = feature_size(stem, options.in_channels, height_and_width(options.image_size))
    field = CoordinateField(options.width, options.groups, options.norm, options.activation)
    return digit_network(options, stem, [SolutionBlock(field, size)], options.width)
