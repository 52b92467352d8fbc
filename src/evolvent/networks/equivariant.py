"""Networks of differential operators that commute with rotations: steerable PDOs and neural ePDOs for small images."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Len
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, ShapeError
from evolvent.groups import Field, Group, Representation, cyclic, direct_sum, quotient, regular, scalars
from evolvent.networks._options import Count, ImageOptions
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import ImageNetwork
from evolvent.operators.differential import (
    Discretisation,
    FieldActivation,
    FieldBatchNorm,
    FieldBias,
    FieldLinear,
    FieldPooling,
    FiniteDifferences,
    FittedGaussian,
    GaussianDerivatives,
    GeneratorActivation,
    GroupRestriction,
    NeuralEPDO,
    OrientationPooling,
    SteerablePDO,
)

GroupName = Annotated[str, "group of rotations, C4, C8, ..., or of rotations and mirrorings, D4, D8, ..."]
DiscretisationName = Annotated[
    Literal["fitted", "gauss", "differences"], "of derivatives: fitted or sampled Gaussians, or finite differences"
]
Sigma = Annotated[float, Gt(0), "standard deviation of the Gaussian, in pixels"]
_PADDING = (1, 2, 2, 2, 2, 0)
_POOLED = (1, 2)  # layers that pooling follows


@dataclass(frozen=True, kw_only=True)
class EquivariantOptions(ImageOptions):
    """The options of the six-layer networks."""

    in_channels: Annotated[Count, "channels of an image"] = 1
    group: GroupName = "C16"
    fields: Annotated[tuple[Count, ...], Len(6, 6), "fields of each of the six layers"] = (16, 24, 32, 32, 48, 64)
    kind: Annotated[
        Literal["regular", "quotient"], "regular fields, or sums of a regular one and its quotients by C2 and C4"
    ] = "regular"
    restrict: Annotated[bool, "go on with rotations alone before the last layer"] = False
    order: Annotated[int, Ge(0), "highest order of derivatives"] = 3
    discretisation: DiscretisationName = "fitted"
    sigma: Sigma = 0.8
    hidden: Annotated[Count, "features between the two fully connected layers"] = 64


@dataclass(frozen=True, kw_only=True)
class NeuralOptions(EquivariantOptions):
    """The options of networks of neural ePDOs."""

    order: Annotated[int, Ge(0), "highest order of derivatives"] = 4
    reduction: Annotated[Count, "how many times fewer fields the generators of coefficients have inside"] = 2
    partitions: Annotated[Count, "groups of fields that share their coefficients"] = 8
    activation: Annotated[GeneratorActivation, "inside the generators of coefficients"] = "relu"


def read_group(name: str) -> Group:
    """The group of a name such as C8 or D4."""
    found = re.fullmatch(r"([CD])([1-9][0-9]*)", name)
    if found is None:
        raise ConfigError(f"groups are called C4, C8, D4 and so on, got {name!r}.")
    return Group(int(found[2]), mirrored=found[1] == "D")


def make_discretisation(kind: str, sigma: float, size: int = 5) -> Discretisation:
    """Derivatives as an option names them."""
    if kind == "differences":
        return FiniteDifferences(size)
    return FittedGaussian(size, sigma) if kind == "fitted" else GaussianDerivatives(size, sigma)


class EquivariantNetwork(ImageNetwork):
    """A network whose features are fields and whose answer no element of the group changes.

    Args:
        layers: the first lifts the image to fields.
        head: from the last field's features to the answer.
        in_channels: channels of an image.
        smallest: pixels that an image has at least along each side.
    """

    def __init__(self, layers: list[nn.Module], head: nn.Module, *, in_channels: int, smallest: int) -> None:
        super().__init__(layers[0], layers[1:], head, in_channels=in_channels)
        self.smallest = smallest

    def _check(self, x: Tensor) -> None:
        super()._check(x)
        if min(x.shape[2:]) < self.smallest:
            raise ShapeError(
                f"this network takes images of at least {self.smallest} pixels along each side, got shape "
                f"{tuple(x.shape)}. Pad them, or enlarge them."
            )


class InvariantHead(nn.Sequential):
    """Largest orientation, largest pixel, and two fully connected layers with batch normalisation."""

    def __init__(self, field: Field, hidden: int, num_classes: int, dropout: float) -> None:
        super().__init__(
            OrientationPooling(field),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(field.multiplicity, hidden),
            nn.BatchNorm1d(hidden),
            nn.ELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
            nn.BatchNorm1d(num_classes),
        )


MakeLayer = Callable[[Field, Field, int, bool], list[nn.Module]]


def _six_layers(options: EquivariantOptions, make_layer: MakeLayer) -> EquivariantNetwork:
    """The network whose later layers are what ``make_layer`` makes, between two fields, with padding and pooling."""
    layers, field = [], scalars(read_group(options.group), options.in_channels)
    for number, after in enumerate(_fields(options)):
        if after.group != field.group:
            restriction = GroupRestriction(field, after.group)
            layers[-1].append(restriction)
            field = restriction.out_field
        if number == 0:
            operators: list[nn.Module] = [_lift(options, field, after)]
        else:
            operators = make_layer(field, after, _PADDING[number], number in _POOLED)
        layers.append(nn.Sequential(*operators, FieldBias(after), FieldBatchNorm(after), FieldActivation(after, "elu")))
        field = after
    head = InvariantHead(field, options.hidden, options.num_classes, options.dropout)
    return EquivariantNetwork(layers, head, in_channels=options.in_channels, smallest=19)


def _fields(options: EquivariantOptions) -> Iterator[Field]:
    group = read_group(options.group)
    for number, count in enumerate(options.fields):
        if options.restrict and number == len(options.fields) - 1:
            group = cyclic(group.rotations)
        yield Field(_representation(group, options.kind), count)


def _representation(group: Group, kind: str) -> Representation:
    if kind == "regular":
        return regular(group)
    if group.mirrored or group.rotations % 4:
        raise ConfigError(f"quotient fields here need a group C4, C8, C12 and so on, got {group}.")
    half, quarter = group.generated(group.rotations // 2), group.generated(group.rotations // 4)
    return direct_sum(regular(group), quotient(group, half), quotient(group, quarter))


def _lift(options: EquivariantOptions, image: Field, after: Field) -> SteerablePDO:
    discretisation = make_discretisation(options.discretisation, options.sigma)
    return SteerablePDO(image, after, options.order, discretisation, padding=_PADDING[0])


def _pooling(field: Field, pooled: bool) -> list[nn.Module]:
    return [FieldPooling(field, 2, pad=True)] if pooled else []


@register_family("steerable_pdo", EquivariantOptions, papers=("jenner2022", "weiler2019"), recipe="epdo-table2-cpu")
def steerable_pdo(options: EquivariantOptions) -> EquivariantNetwork:
    r"""Steerable PDOs: six layers of linear differential operators that commute with rotations.

    .. math:: u_{j+1} = \sigma\Bigl(\mathcal B\Bigl(\sum_{|\alpha| \le N} W_{j\alpha}\, \partial^\alpha u_j\Bigr)\Bigr)

    Jenner and Weiler 2022, the network of Table 2 of He et al. 2023: stencils of 5 x 5 pixels, pooling in layers 2 and
    3, the largest orientation and pixel, two fully connected layers. Between regular fields of cyclic groups the
    operators are the band-limited ones, as in the published network. That one takes maxima and leaves rows of odd maps
    out, which breaks quarter turns; here pooling averages over centred windows.

    Shape: (B, in_channels, H, W) to (B, num_classes); any H and W of at least 19.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("steerable_pdo_c16").parameters())
    941958
    """
    discretisation = make_discretisation(options.discretisation, options.sigma)

    def layer(before: Field, after: Field, padding: int, pooled: bool) -> list[nn.Module]:
        plain = before.representation == regular(before.group) and not before.group.mirrored
        basis = "band_limited" if plain and after.representation == regular(after.group) else "complete"
        operator = SteerablePDO(before, after, options.order, discretisation, padding=padding, basis=basis)
        return [operator, *_pooling(after, pooled)]

    return _six_layers(options, layer)


@register_family("epdo", NeuralOptions, papers=("he2022epdo", "jenner2022"), recipe="epdo-table2-cpu")
def epdo(options: NeuralOptions) -> EquivariantNetwork:
    r"""Neural ePDOs: six layers whose differential operators adapt to the features and commute with rotations.

    .. math:: u_{j+1} = \sigma\Bigl(\mathcal B\Bigl(P_j \sum_{|\alpha| \le N} w_{j\alpha}(u_j) \circ \partial^\alpha u_j
              \Bigr)\Bigr), \qquad w_j(u) = W_j^2\, ReLU(W_j^1 u)

    He et al. 2023, Table 2, with linear maps :math:`P_j` of fields. The first layer is a steerable PDO. Averages over
    windows of pixels, in layers 2 and 3, are taken before :math:`P_j`, which is the same at a fraction of the cost. The
    paper does not print the widths of its networks with quotient fields (229K) and with mirrorings (525K); those here
    are chosen to come near.

    Shape: (B, in_channels, H, W) to (B, num_classes); any H and W of at least 19.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("epdo_c16").parameters())
    233622
    """
    discretisation = make_discretisation(options.discretisation, options.sigma)

    def layer(before: Field, after: Field, padding: int, pooled: bool) -> list[nn.Module]:
        sizes = options.order, options.reduction, options.partitions
        operator = NeuralEPDO(
            before, *sizes, "diagonal", discretisation, padding=padding, activation=options.activation
        )
        return [operator, *_pooling(before, pooled), FieldLinear(before, after)]

    return _six_layers(options, layer)


register_member("steerable_pdo_c16", "steerable_pdo", recipe="epdo-table2", group="C16")
register_member("steerable_pdo_c8", "steerable_pdo", group="C8", fields=(8, 8, 12, 12, 16, 24))
register_member("epdo_c16", "epdo", recipe="epdo-table2", group="C16")
register_member("epdo_c16_quotient", "epdo", recipe="epdo-table2", kind="quotient", fields=(8, 16, 16, 16, 24, 32))
register_member(
    "epdo_d16_c16", "epdo", recipe="epdo-table2", group="D16", restrict=True, fields=(16, 24, 32, 32, 48, 64)
)
register_member("epdo_c8", "epdo", group="C8", fields=(8, 16, 24, 24, 32, 48))
