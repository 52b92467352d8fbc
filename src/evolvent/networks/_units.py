"""The multi-resolution frame that the PDE networks share: units of one evolution each, coarser and wider in turn."""

# Annotations are evaluated here, not kept as text: builders move to their family's module, where options are checked.
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torch import nn

from evolvent.dynamics.normalisation import Norm
from evolvent.evolution import Evolution
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, check_positive, per_unit, plain_conv

Readout: TypeAlias = Literal["classification", "segmentation"]
ImageSize: TypeAlias = int | tuple[int, int]


@dataclass(frozen=True)
class Unit:
    """What a family needs to know to build the evolution of one unit."""

    width: int
    blocks: int
    step_size: float
    operator: str
    norm: Norm | None
    bias: bool

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
    head_pool: average pooling before the linear map.
    dropout: share of pooled features dropped in training.
    operator: kind of :math:`K`, such as ``"full"``, ``"lean"`` or ``"multigrid"``.
    norm, bias: normalisation inside the blocks, learned :math:`b`.{own}

Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.
"""


def unit_family(
    name: str, *, papers: tuple[str, ...], recipe: str, **defaults: Any
) -> Callable[[Callable[..., Evolution]], Callable[..., ImageNetwork]]:
    """Register the networks of this frame whose units evolve as the decorated function says.

    The function's docstring states the equation; the arguments that all such families share are added to it.
    ``defaults`` are the family's own for some of them. The function's own keyword arguments, explained under ``Args:``
    at the end of its docstring, become options as well.
    """

    def register(make_evolution: Callable[..., Evolution]) -> Callable[..., ImageNetwork]:
        def build(
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
            **own: Any,
        ) -> ImageNetwork:
            check_positive(num_classes=num_classes, in_channels=in_channels, image_size=image_size, channels=channels)
            counts = per_unit(blocks, len(channels))
            units = [Unit(w, n, step_size, operator, norm, bias) for w, n in zip(channels, counts, strict=True)]
            pooled = readout == "classification"
            body = _alternate([make_evolution(unit, **own) for unit in units], channels, pooled)
            stem = plain_conv(in_channels, channels[0])
            if readout == "segmentation":
                return ImageNetwork(stem, body, nn.Conv2d(channels[-1], num_classes, 1), in_channels=in_channels)
            size = (image_size, image_size) if isinstance(image_size, int) else image_size
            head = _classifier(size, channels, num_classes, head_pool, dropout)
            return ImageNetwork(stem, body, head, in_channels=in_channels, image_size=size)

        build.__kwdefaults__ = {**(build.__kwdefaults__ or {}), **defaults}
        _adopt_options(build, make_evolution)
        build.__name__, build.__qualname__, build.__module__ = name, name, make_evolution.__module__
        equation, _, own_arguments = (inspect.getdoc(make_evolution) or "").partition("\n\nArgs:")
        build.__doc__ = equation + _ARGUMENTS.format(own=own_arguments)
        register_family(name, papers=papers, recipe=recipe)(build)
        return build

    return register


def _adopt_options(build: Callable[..., ImageNetwork], make_evolution: Callable[..., Evolution]) -> None:
    """Let ``build`` show the keyword arguments of ``make_evolution`` as its own, in place of ``**own``."""
    signature = inspect.signature(build)
    shared = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    own = [p for p in inspect.signature(make_evolution, eval_str=True).parameters.values() if p.kind is p.KEYWORD_ONLY]
    build.__annotations__.pop("own")
    build.__annotations__ |= {p.name: p.annotation for p in own}
    vars(build)["__signature__"] = signature.replace(parameters=[*shared, *own])


def _alternate(evolutions: list[Evolution], channels: tuple[int, ...], pooled: bool) -> list[nn.Module]:
    body: list[nn.Module] = [evolutions[0]]
    for evolution, before, after in zip(evolutions[1:], channels, channels[1:], strict=False):
        pool = [nn.AvgPool2d(2)] if pooled else []
        body += [nn.Sequential(*pool, plain_conv(before, after, 1), nn.ReLU()), evolution]
    return body


def _classifier(
    size: tuple[int, int], channels: tuple[int, ...], num_classes: int, head_pool: int, dropout: float
) -> PooledLinear:
    check_positive(head_pool=head_pool)
    shrink = 2 ** (len(channels) - 1)
    final = (size[0] // shrink, size[1] // shrink)
    return PooledLinear(channels[-1], num_classes, size=final, pool=head_pool, dropout=dropout)
