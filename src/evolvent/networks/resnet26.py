"""ResNet-26 for photographs, plain and with differential operators that commute with rotations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Protocol

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from evolvent._core.state import State
from evolvent.dynamics import Dynamics
from evolvent.evolution import Evolution
from evolvent.groups import Field, regular_fields, scalars
from evolvent.integrators import ProjectedEuler
from evolvent.networks._options import Blocks, Count, ImageOptions, NumClasses
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, per_unit, plain_conv
from evolvent.networks.equivariant import DiscretisationName, GroupName, Sigma, make_discretisation, read_group
from evolvent.operators.differential import (
    FieldBatchNorm,
    FieldLinear,
    FieldPooling,
    NeuralEPDO,
    OrientationPooling,
    SteerablePDO,
)

_STEM, _UNITS, _EXPANSION = (32, 32, 64), (64, 128, 256, 512), 4
_FIELDS_PER_CHANNEL = 3 / 8


@dataclass(frozen=True, kw_only=True)
class ResNet26Options(ImageOptions):
    """The options of all ResNet-26."""

    num_classes: NumClasses = 1000
    blocks: Blocks = (1, 2, 4, 1)
    width: Annotated[float, Gt(0), Lt(16), "factor of the published numbers of feature maps or fields"] = 1.0


@dataclass(frozen=True, kw_only=True)
class SteerableResNet26Options(ResNet26Options):
    """The options of ResNet-26 with differential operators."""

    group: GroupName = "C8"
    order: Annotated[int, Ge(0), "highest order of derivatives"] = 3
    discretisation: DiscretisationName = "fitted"
    sigma: Sigma = 0.8


@dataclass(frozen=True, kw_only=True)
class NeuralResNet26Options(SteerableResNet26Options):
    """The options of ResNet-26 with neural ePDOs."""

    order: Annotated[int, Ge(0), "highest order of derivatives"] = 4
    reduction: Annotated[Count, "how many times fewer fields generators have inside, where that divides them"] = 2
    partitions: Annotated[Count, "groups of fields that share their coefficients, where that divides them"] = 8


@register_family("resnet26", ResNet26Options, papers=("he2016deep", "li2021"), recipe="epdo-table3")
def resnet26(options: ResNet26Options) -> ImageNetwork:
    r"""ResNet-26: residual steps of three convolutions each, for photographs.

    .. math:: u_{j+1} = \sigma\bigl(u_j + \mathcal B(P_j\, \sigma(\mathcal B(K_j\, \sigma(\mathcal B(Q_j u_j)))))\bigr)

    Li et al. 2021, and the baseline of tables 3 and 4 of He et al. 2023: four units of 1, 2, 4 and 1 blocks with
    convolutions :math:`Q` of 1 x 1, :math:`K` of 3 x 3 and :math:`P` of 1 x 1 pixels, after three convolutions and
    pooling, which make images four times smaller. As in the code of Li et al., the last normalisation of each block
    starts with the weight 0. He et al. print 13.7M parameters for 1000 classes, as here, and 13.12M for 100: there the
    last layer alone has 1.84M fewer, which leaves 11,871,684.

    Shape: (B, in_channels, H, W) to (B, num_classes); any H and W.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("resnet26").parameters())
    13715784
    """
    widths = [_scaled(options.width, count) for count in (*_STEM, *_UNITS)]
    head = PooledLinear(_EXPANSION * widths[-1], options.num_classes, dropout=options.dropout)
    return _frame(options, _PlainLayers(), widths, head)


@register_family(
    "resnet26_steerable_pdo",
    SteerableResNet26Options,
    papers=("jenner2022", "he2022epdo", "li2021"),
    recipe="epdo-table3",
)
def resnet26_steerable_pdo(options: SteerableResNet26Options) -> ImageNetwork:
    r"""ResNet-26 of steerable PDOs: rotations of a photograph turn its features and leave the answer as it is.

    .. math:: u_{j+1} = \sigma\Bigl(u_j + \mathcal B\Bigl(P_j\, \sigma\Bigl(\mathcal B\Bigl(\sum_{|\alpha| \le N}
              W_{j\alpha}\, \partial^\alpha\, \sigma(\mathcal B(Q_j u_j))\Bigr)\Bigr)\Bigr)\Bigr)

    Tables 3 and 4 of He et al. 2023: as ``resnet26``, with regular fields of C8, linear maps of fields for the
    convolutions of 1 x 1 pixels and steerable PDOs for the others. Strides would break the symmetry, so features are
    averaged over 2 x 2 pixels before the operator. The largest orientation is taken at the end.

    The paper prints neither the factor between channels and fields nor order and stencils. Here there are 3 fields for
    8 channels and all operators of order 3 on 5 x 5 pixels: 14.5M parameters for 1000 classes and 13.8M for 100, where
    the paper has 15.02M and 14.4M.

    Shape: (B, in_channels, H, W) to (B, num_classes); any H and W.

    >>> import evolvent as ev
    >>> [sum(p.numel() for p in ev.create_model("resnet26_steerable_pdo", num_classes=n).parameters())
    ...  for n in (100, 1000)]
    [13813516, 14505616]
    """
    discretisation = make_discretisation(options.discretisation, options.sigma)

    def operator(before: Field, after: Field) -> nn.Module:
        return SteerablePDO(before, after, options.order, discretisation)

    return _field_network(options, operator)


@register_family(
    "resnet26_epdo", NeuralResNet26Options, papers=("he2022epdo", "jenner2022", "li2021"), recipe="epdo-table3"
)
def resnet26_epdo(options: NeuralResNet26Options) -> ImageNetwork:
    r"""ResNet-26 of neural ePDOs: differential operators that adapt to a photograph and commute with rotations.

    .. math:: u_{j+1} = \sigma\Bigl(u_j + \mathcal B\Bigl(P_j\, \sigma\Bigl(\mathcal B\Bigl(\sum_{|\alpha| \le N}
              w_{j\alpha}(v_j) \circ \partial^\alpha v_j\Bigr)\Bigr)\Bigr)\Bigr), \qquad
              v_j = \sigma(\mathcal B(Q_j u_j)), \quad w_j(v) = W_j^2\, ReLU(W_j^1 v)

    Tables 3 and 4 of He et al. 2023: as ``resnet26_steerable_pdo`` with as many fields. The operators are of order 4,
    with r = 2 and p = 8, as in the networks for MNIST-rot. The first layer is a steerable PDO, and where the number of
    fields changes in the stem, a linear map of fields follows. That makes 9.1M parameters for 1000 classes and 8.4M for
    100, where the paper has 8.82M and 8.24M.

    Shape: (B, in_channels, H, W) to (B, num_classes); any H and W.

    >>> import evolvent as ev
    >>> [sum(p.numel() for p in ev.create_model("resnet26_epdo", num_classes=n).parameters()) for n in (100, 1000)]
    [8381440, 9073540]
    """
    discretisation = make_discretisation(options.discretisation, options.sigma)

    def operator(before: Field, after: Field) -> nn.Module:
        fields = before.multiplicity
        reduction, partitions = math.gcd(options.reduction, fields), math.gcd(options.partitions, fields)
        made = NeuralEPDO(before, options.order, reduction, partitions, "diagonal", discretisation)
        return made if before == after else nn.Sequential(made, FieldLinear(before, after))

    return _field_network(options, operator)


class Bottleneck(Dynamics):
    """A right-hand side that works in fewer channels than its state has.

    Shape: (B, C, H, W) to the same.
    """

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, t: float, u: State) -> Tensor:
        return self.layers(u)


class ProjectedTransition(nn.Module):
    r"""The block that changes channels and resolution: :math:`u^+ = \sigma(S u + F(u))` with a linear map :math:`S`."""

    def __init__(self, layers: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.layers, self.shortcut = layers, shortcut

    def forward(self, u: Tensor) -> Tensor:
        return torch.relu(self.shortcut(u) + self.layers(u))


class _Layers(Protocol):
    """What the frame is made of: layers that end in a normalisation; widths count channels or fields."""

    def first(self, in_channels: int, after: int) -> nn.Module:
        """From images to features of half the resolution."""
        ...

    def pointwise(self, before: int, after: int, halved: bool) -> nn.Module: ...

    def spatial(self, before: int, after: int, halved: bool) -> nn.Module: ...

    def pool(self, width: int) -> nn.Module: ...


class _PlainLayers:
    """Convolutions."""

    def first(self, in_channels: int, after: int) -> nn.Module:
        return self._convolution(in_channels, after, 3, halved=True)

    def pointwise(self, before: int, after: int, halved: bool) -> nn.Module:
        return self._convolution(before, after, 1, halved)

    def spatial(self, before: int, after: int, halved: bool) -> nn.Module:
        return self._convolution(before, after, 3, halved)

    def pool(self, width: int) -> nn.Module:
        return nn.MaxPool2d(3, 2, padding=1)

    def _convolution(self, before: int, after: int, size: int, halved: bool) -> nn.Module:
        return nn.Sequential(plain_conv(before, after, size, stride=2 if halved else 1), nn.BatchNorm2d(after))


class _FieldLayers:
    """Linear maps and differential operators of regular fields; ``operator`` makes one between two fields."""

    def __init__(self, options: SteerableResNet26Options, operator: Callable[[Field, Field], nn.Module]) -> None:
        self.options, self.operator = options, operator
        self.group = read_group(options.group)

    def first(self, in_channels: int, after: int) -> nn.Module:
        discretisation = make_discretisation(self.options.discretisation, self.options.sigma)
        field = self.field(after)
        lift = SteerablePDO(scalars(self.group, in_channels), field, self.options.order, discretisation)
        return nn.Sequential(lift, self.pool(after), FieldBatchNorm(field))

    def pointwise(self, before: int, after: int, halved: bool) -> nn.Module:
        return self._layer(before, after, halved, FieldLinear(self.field(before), self.field(after)))

    def spatial(self, before: int, after: int, halved: bool) -> nn.Module:
        return self._layer(before, after, halved, self.operator(self.field(before), self.field(after)))

    def pool(self, width: int) -> nn.Module:
        return FieldPooling(self.field(width), 2, pad=True)

    def field(self, width: int) -> Field:
        return regular_fields(self.group, width)

    def _layer(self, before: int, after: int, halved: bool, operator: nn.Module) -> nn.Module:
        pooling = [self.pool(before)] if halved else []
        return nn.Sequential(*pooling, operator, FieldBatchNorm(self.field(after)))


def _scaled(width: float, count: int) -> int:
    return max(1, round(width * count))


def _field_network(options: SteerableResNet26Options, operator: Callable[[Field, Field], nn.Module]) -> ImageNetwork:
    widths = [_scaled(options.width * _FIELDS_PER_CHANNEL, count) for count in (*_STEM, *_UNITS)]
    layers = _FieldLayers(options, operator)
    field = layers.field(_EXPANSION * widths[-1])
    answer = PooledLinear(field.multiplicity, options.num_classes, dropout=options.dropout)
    return _frame(options, layers, widths, nn.Sequential(OrientationPooling(field), answer))


def _frame(options: ResNet26Options, layers: _Layers, widths: list[int], head: nn.Module) -> ImageNetwork:
    """Three layers and a pooling, then units of bottlenecks; ``widths`` are those of the layers, then of the units."""
    first, second, third, *units = widths
    stem = nn.Sequential(
        layers.first(options.in_channels, first),
        nn.ReLU(),
        layers.spatial(first, second, halved=False),
        nn.ReLU(),
        layers.spatial(second, third, halved=False),
        nn.ReLU(),
        layers.pool(third),
    )
    body, before = [], third
    for number, (width, count) in enumerate(zip(units, per_unit(options.blocks, len(units)), strict=True)):
        body += _unit(layers, before, width, count, halved=number > 0)
        before = _EXPANSION * width
    return ImageNetwork(stem, body, head, in_channels=options.in_channels)


def _unit(layers: _Layers, before: int, width: int, count: int, halved: bool) -> list[nn.Module]:
    after = _EXPANSION * width
    shortcut = layers.pointwise(before, after, halved)
    transition = ProjectedTransition(_bottleneck(layers, before, width, halved), shortcut)
    steps = [Bottleneck(_bottleneck(layers, after, width, halved=False)) for _ in range(count - 1)]
    return [transition, Evolution(steps, ProjectedEuler(), step_size=1.0)] if steps else [transition]


def _bottleneck(layers: _Layers, before: int, width: int, halved: bool) -> nn.Sequential:
    """Three layers; the last normalisation starts at zero, so that blocks start as their shortcuts."""
    last = layers.pointwise(width, _EXPANSION * width, halved=False)
    *_, norm = (part for part in last.modules() if isinstance(part, _BatchNorm))
    nn.init.zeros_(norm.weight)
    return nn.Sequential(
        layers.pointwise(before, width, halved=False),
        nn.ReLU(),
        layers.spatial(width, width, halved),
        nn.ReLU(),
        last,
    )
