"""Isometric MobileNet V3 (Sandler et al. 2019), with an ODE or the solution of an equation inside (Kim et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from evolvent._core.state import State
from evolvent.dynamics import Dynamics
from evolvent.evolution import Evolution
from evolvent.integrators import Dopri5, Euler
from evolvent.networks._options import Count, ImageOptions, ImageSize
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork, height_and_width
from evolvent.networks.solution_block import COORDINATES, CoordinateConvolution, SolutionBlock, feature_size

_EXPANSION, _SQUEEZE, _KERNEL = 6, 4, 5  # Table 11: 64 to 384 channels, 5 x 5 taps; a quarter in squeeze-and-excitation
_CHANNELS, _HIDDEN = 64, 1024  # of the trunk and of the head, at width 1


class SqueezeExcitation(nn.Module):
    r"""Scales channels by what all of the image says, :math:`u \cdot s(W_2\, \sigma(W_1 \bar u + b_1) + b_2)`.

    :math:`\bar u` is the mean over space, s the hard sigmoid. Howard et al. 2019.

    Shape: (B, channels, H, W) to the same.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, channels // _SQUEEZE, 1)
        self.excite = nn.Conv2d(channels // _SQUEEZE, channels, 1)

    def forward(self, u: Tensor) -> Tensor:
        mean = u.mean((2, 3), keepdim=True)
        return u * nn.functional.hardsigmoid(self.excite(torch.relu(self.squeeze(mean))))


class MobileField(nn.Module):
    r"""The inverted bottleneck of MobileNet V3: expand, filter each channel, weigh channels, project.

    .. math:: f(h, c) = \mathcal B P\, \sigma(\mathrm{SE}(\mathcal B D\, \sigma(\mathcal B E [h, c])))

    :math:`E` and :math:`P` have one tap, :math:`D` acts on each channel with 5 x 5 taps, :math:`\sigma` is hard swish,
    and :math:`c` are coordinates, as many as asked for. Kim et al. 2022, Table 11, with three of them.

    Shape: (B, channels, H, W) and, for each coordinate, (1, 1, H, W) to (B, channels, H, W).
    """

    def __init__(self, channels: int, coordinates: int) -> None:
        super().__init__()
        hidden = _EXPANSION * channels
        self.expand = CoordinateConvolution(channels, coordinates, hidden, 1, bias=False)
        self.filter = nn.Conv2d(hidden, hidden, _KERNEL, padding=_KERNEL // 2, groups=hidden, bias=False)
        self.project = nn.Conv2d(hidden, channels, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(hidden), nn.BatchNorm2d(hidden)
        self.norm3 = nn.BatchNorm2d(channels)
        self.weigh = SqueezeExcitation(hidden)

    def forward(self, h: Tensor, *coordinates: Tensor) -> Tensor:
        u = nn.functional.hardswish(self.norm1(self.expand(h, *coordinates)))
        u = nn.functional.hardswish(self.weigh(self.norm2(self.filter(u))))
        return self.norm3(self.project(u))


class MobileDynamics(Dynamics):
    """The inverted bottleneck as a right-hand side, which may see the time.

    Shape: (B, channels, H, W) to the same.
    """

    def __init__(self, channels: int, timed: bool) -> None:
        super().__init__()
        self.timed = timed
        self.field = MobileField(channels, int(timed))

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        return self.field(u, torch.full_like(u[:1, :1], t)) if self.timed else self.field(u)


class MobileBlock(nn.Module):
    """A residual step with the inverted bottleneck, where its gradient must not depend on the gradient strategy.

    Shape: (B, channels, H, W) to the same.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.field = MobileField(channels, 0)

    def forward(self, u: Tensor) -> Tensor:
        return u + self.field(u)


class MobileHead(nn.Module):
    """Expand, average over all pixels, and two affine maps with hard swish between them."""

    def __init__(self, channels: int, hidden: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        wide = _EXPANSION * channels
        self.expand = nn.Conv2d(channels, wide, 1, bias=False)
        self.norm = nn.BatchNorm2d(wide)
        self.hidden = nn.Linear(wide, hidden)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.linear = nn.Linear(hidden, num_classes)

    def forward(self, u: Tensor) -> Tensor:
        pooled = nn.functional.hardswish(self.norm(self.expand(u))).mean((2, 3))
        return self.linear(self.dropout(nn.functional.hardswish(self.hidden(pooled))))


@dataclass(frozen=True, kw_only=True)
class MobileOptions(ImageOptions):
    """The options that the isometric networks share."""

    multiplier: Annotated[Count, "width multiplier of all layers"] = 1
    blocks: Annotated[Count, "mobile blocks"] = 3
    shrink: Annotated[Literal[2, 4], "by how much the stem shrinks the image; the trunk keeps its size"] = 4


@dataclass(frozen=True, kw_only=True)
class IsometricOptions(MobileOptions):
    blocks: Annotated[Count, "mobile blocks"] = 4


@register_family("mobilenetv3_isometric", IsometricOptions, papers=("sandler2019", "howard2019"), recipe="prnet-table3")
def mobilenetv3_isometric(options: IsometricOptions) -> ImageNetwork:
    r"""Isometric MobileNet V3: residual steps of inverted bottlenecks at one resolution.

    .. math:: u_{j+1} = u_j + F_j(u_j)

    The baseline of Kim et al. 2022, Table 3, with four blocks. They print 1.21M parameters for 200 classes, 4.30M at
    ``multiplier=2``, and neither stem nor head. Here the stem is two convolutions of 3 x 3 taps, and the head has 1024
    hidden features: 1,201,928 and 4,296,008.

    Shape: (B, in_channels, H, W) to (B, num_classes).
    """
    return _mobile_network(options, _stem(options), [_trunk(options)])


@dataclass(frozen=True, kw_only=True)
class OdeMobileOptions(MobileOptions):
    rtol: Annotated[float, "relative tolerance of the solver"] = 1e-3
    atol: Annotated[float, "absolute tolerance of the solver"] = 1e-3


@register_family(
    "odenet_mobile", OdeMobileOptions, papers=("kim2022", "chen2018", "sandler2019"), recipe="prnet-table3"
)
def odenet_mobile(options: OdeMobileOptions) -> ImageNetwork:
    r"""Isometric MobileNet V3 whose last block is an ODE, solved adaptively over unit time.

    .. math:: u'(t) = F(t, u(t); \theta), \quad t \in [0, 1]

    The rival of PR-Net in Kim et al. 2022, Table 3, with three mobile blocks before it. Its right-hand side is not
    printed; here it is an inverted bottleneck that sees the time. For 200 classes that makes 1,202,312 parameters, and
    4,296,776 at ``multiplier=2``; they print 1.36M and 4.90M. One more mobile block comes nearer: 1.34M and 4.81M.
    Gradient strategies, such as the adjoint of the paper, act on the ODE alone.

    Shape: (B, in_channels, H, W) to (B, num_classes).
    """
    flow = MobileDynamics(_CHANNELS * options.multiplier, timed=True)
    last = Evolution(flow, Dopri5(options.rtol, options.atol), steps=1, step_size=1.0)
    blocks = [MobileBlock(_CHANNELS * options.multiplier) for _ in range(options.blocks)]
    return _mobile_network(options, _stem(options), [*blocks, last])


@dataclass(frozen=True, kw_only=True)
class PrMobileOptions(MobileOptions):
    image_size: ImageSize = 64


@register_family("prnet_mobile", PrMobileOptions, papers=("kim2022", "sandler2019"), recipe="prnet-table3")
def prnet_mobile(options: PrMobileOptions) -> ImageNetwork:
    r"""PR-Net for photographs: isometric MobileNet V3 whose last block is the solution of a learned equation.

    .. math:: h(d, t) = f(h(0), d, t; \theta)

    Kim et al. 2022, Tables 3, 4 and 11: three mobile blocks, then a :class:`~evolvent.networks.SolutionBlock`. For 200
    classes and images of 64 x 64 pixels that makes 1,203,848 parameters, and 4,299,080 at ``multiplier=2``; they
    print 1.36M and 4.56M, which Table 11 does not explain. One more mobile block has 1.34M and 4.81M.

    In training, batch normalisation removes a shift of the coordinates altogether. So the task ``prnet`` takes the
    losses of the equation and of the initial condition with running statistics, as they are used for inference.

    Shape: (B, in_channels, H, W) to (B, num_classes). Points are made for ``image_size``, and interpolated for others.
    """
    stem = _stem(options)
    size = feature_size(stem, options.in_channels, height_and_width(options.image_size))
    field = MobileField(_CHANNELS * options.multiplier, len(COORDINATES))
    return _mobile_network(options, stem, [_trunk(options), SolutionBlock(field, size)])


def _stem(options: MobileOptions) -> nn.Sequential:
    channels, first = _CHANNELS * options.multiplier, options.shrink // 2
    return nn.Sequential(
        nn.Conv2d(options.in_channels, channels, 3, stride=first, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.Hardswish(),
        nn.Conv2d(channels, channels, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.Hardswish(),
    )


def _trunk(options: MobileOptions) -> Evolution:
    steps = [MobileDynamics(_CHANNELS * options.multiplier, timed=False) for _ in range(options.blocks)]
    return Evolution(steps, Euler(), step_size=1.0)


def _mobile_network(options: MobileOptions, stem: nn.Module, body: Sequence[nn.Module]) -> ImageNetwork:
    channels = _CHANNELS * options.multiplier
    head = MobileHead(channels, _HIDDEN * options.multiplier, options.num_classes, options.dropout)
    return ImageNetwork(stem, body, head, in_channels=options.in_channels)
