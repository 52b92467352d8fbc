"""The multi-resolution frame that the PDE networks share: units of evolutions, coarser and wider in turn."""

# Annotations are evaluated here, not kept as text: builders move to their family's module, where options are checked.
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import nn

from evolvent.dynamics.layers import Norm
from evolvent.evolution import Evolution
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import (
    ImageNetwork,
    PixelClassifier,
    PooledLinear,
    Readout,
    check_positive,
    per_unit,
    plain_conv,
)

ImageSize: TypeAlias = int | tuple[int, int]


@dataclass(frozen=True)
class Unit:
    """What a family needs to know to build one unit; ``size`` is that of its maps, None where any will do."""

    width: int
    blocks: int
    step_size: float
    operator: str
    norm: Norm | None
    bias: bool
    size: tuple[int, int] | None = None

    @property
    def layer(self) -> dict[str, Any]:
        """The options that all dynamics take."""
        return {"operator": self.operator, "norm": self.norm, "bias": self.bias}


_ARGUMENTS = """

A 3x3 convolution lifts the image; between units, average pooling by 2 and a 1x1 convolution with ReLU raise the
channels (Bohn, Griebel, Kannan 2021, section 4.6); segmentation leaves the pooling out.

Args:
    num_classes: number of classes.
    in_channels: channels of an image.
    image_size: height and width of an image; the classifier's linear map depends on them.
    channels: number of feature maps of each unit.
    blocks: steps of each unit, one number for all or one for each.
    step_size: :math:`h`.
    readout: one class per image, or one per pixel.
    coarsen: for segmentation, stride of the first convolution; the answer is interpolated back to the image's size.
    head_pool: average pooling before the linear map.
    dropout: share of pooled features dropped in training.
    operator: kind of :math:`K`, such as ``"full"``, ``"lean"`` or ``"multigrid"``.
    norm, bias: normalisation inside the blocks, learned :math:`b`.{own}

Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.
"""


UnitBuilder: TypeAlias = Callable[..., Evolution | list[nn.Module]]


def unit_family(
    name: str, *, papers: tuple[str, ...], recipe: str, **defaults: Any
) -> Callable[[UnitBuilder], Callable[..., ImageNetwork]]:
    """Register the networks of this frame whose units are what the decorated function makes of a :class:`Unit`.

    The function's docstring states the equation; the arguments that all such families share are added to it.
    ``defaults`` are the family's own for some of them. The function's own keyword arguments, explained under ``Args:``
    at the end of its docstring, become options as well.
    """

    def register(make_unit: UnitBuilder) -> Callable[..., ImageNetwork]:
        def build(
            num_classes: int = 10,
            in_channels: int = 3,
            image_size: ImageSize = 32,
            *,
            channels: tuple[int, ...] = (32, 64, 112),
            blocks: int | tuple[int, ...] = 6,
            step_size: float = 0.1,
            readout: Readout = "classification",
            coarsen: int = 1,
            head_pool: int = 2,
            dropout: float = 0.0,
            operator: str = "full",
            norm: Norm | None = None,
            bias: bool = False,
            **own: Any,
        ) -> ImageNetwork:
            check_positive(num_classes=num_classes, in_channels=in_channels, image_size=image_size, channels=channels)
            check_positive(head_pool=head_pool, coarsen=coarsen)
            pooled = readout == "classification"
            sizes = _sizes(image_size, len(channels)) if pooled else [None] * len(channels)
            counts = per_unit(blocks, len(channels))
            units = [
                make_unit(Unit(width, count, step_size, operator, norm, bias, size), **own)
                for width, count, size in zip(channels, counts, sizes, strict=True)
            ]
            body = _alternate(units, channels, pooled)
            if not pooled:
                stem = plain_conv(in_channels, channels[0], 2 * coarsen + 1, stride=coarsen)
                return ImageNetwork(
                    stem, body, PixelClassifier(channels[-1], num_classes, coarsen), in_channels=in_channels
                )
            stem = plain_conv(in_channels, channels[0])
            head = PooledLinear(channels[-1], num_classes, size=sizes[-1], pool=head_pool, dropout=dropout)
            return ImageNetwork(stem, body, head, in_channels=in_channels, image_size=sizes[0])

        build.__kwdefaults__ = {**(build.__kwdefaults__ or {}), **defaults}
        _adopt_options(build, make_unit)
        build.__name__, build.__qualname__, build.__module__ = name, name, make_unit.__module__
        equation, _, own_arguments = (inspect.getdoc(make_unit) or "").partition("\n\nArgs:")
        build.__doc__ = equation + _ARGUMENTS.format(own=own_arguments)
        register_family(name, papers=papers, recipe=recipe)(build)
        return build

    return register


def _adopt_options(build: Callable[..., ImageNetwork], make_unit: UnitBuilder) -> None:
    """Let ``build`` show the keyword arguments of ``make_unit`` as its own, in place of ``**own``."""
    signature = inspect.signature(build)
    shared = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    own = [p for p in inspect.signature(make_unit, eval_str=True).parameters.values() if p.kind is p.KEYWORD_ONLY]
    build.__annotations__.pop("own")
    build.__annotations__ |= {p.name: p.annotation for p in own}
    vars(build)["__signature__"] = signature.replace(parameters=[*shared, *own])


def _sizes(image_size: ImageSize, units: int) -> list[tuple[int, int]]:
    """Height and width of the maps of each unit, halved from one to the next."""
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    return [(height // 2**k, width // 2**k) for k in range(units)]


def _alternate(units: list[Evolution | list[nn.Module]], channels: tuple[int, ...], pooled: bool) -> list[nn.Module]:
    """The modules of all units, with a transition before each unit but the first."""
    body: list[nn.Module] = []
    for k, unit in enumerate(units):
        if k:
            pool = [nn.AvgPool2d(2)] if pooled else []
            body.append(nn.Sequential(*pool, plain_conv(channels[k - 1], channels[k], 1), nn.ReLU()))
        body += unit if isinstance(unit, list) else [unit]
    return body
