"""Options of networks: each a declared field with type, limits, description and default."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Len, Lt

from evolvent._core.checks import told
from evolvent._core.errors import ConfigError, UnknownNameError, shortened

Count: TypeAlias = Annotated[int, Ge(1)]
Readout: TypeAlias = Literal["classification", "segmentation"]

# Options that several families have, so that a family only states its own default.
NumClasses: TypeAlias = Annotated[Count, "number of classes"]
InChannels: TypeAlias = Annotated[Count, "channels of an image"]
ImageSize: TypeAlias = Annotated[
    Count | tuple[Count, Count],
    "height and width of an image, or one number for both; the linear map of the head needs them",
]
Channels: TypeAlias = Annotated[tuple[Count, ...], Len(1), "feature maps of each unit"]
Width: TypeAlias = Annotated[Count, "number of features or feature maps"]
Blocks: TypeAlias = Annotated[
    Count | tuple[Count, ...], "blocks (steps) of each unit, one number for all or one for each"
]
StepSize: TypeAlias = Annotated[float, Gt(0), Lt(math.inf), "step size h"]
ReadoutOption: TypeAlias = Annotated[Readout, "one class per image, or one per pixel"]
HeadPool: TypeAlias = Annotated[Count, "average pooling before the linear map of the head"]
Dropout: TypeAlias = Annotated[float, Ge(0), Lt(1), "share of pooled features dropped in training"]
Operator: TypeAlias = Annotated[str, "kind of the operator K, such as full, lean or multigrid"]
NormOption: TypeAlias = Annotated[Literal["batch", "group"] | None, "normalisation inside the blocks, or none"]
Bias: TypeAlias = Annotated[bool, "learn a bias b inside the blocks, one number per channel"]
Damping: TypeAlias = Annotated[float, Ge(0), Lt(math.inf), "damping gamma of antisymmetric dynamics"]


class OptionInWords(NamedTuple):
    """An option as people read it."""

    name: str
    values: str
    default: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The options of a family of networks: a field for each, annotated with limits and a description.

    >>> NetworkOptions.read({"num_classes": 3}, "my_network")
    NetworkOptions(num_classes=3)
    """

    num_classes: NumClasses = 10

    @classmethod
    def names(cls) -> list[str]:
        """Names of all options."""
        return [option.name for option in fields(cls)]

    @classmethod
    def descriptions(cls) -> dict[str, str]:
        """What each option means; empty for an option without a description."""
        hints = get_type_hints(cls, include_extras=True)
        notes = {name: getattr(hints[name], "__metadata__", ()) for name in cls.names()}
        return {name: next((n for n in found if isinstance(n, str)), "") for name, found in notes.items()}

    def in_words(self) -> list[OptionInWords]:
        """Each option: what it may be, its value here, and what it means.

        >>> NetworkOptions().in_words()
        [OptionInWords(name='num_classes', values='integer', default='10', meaning='number of classes')]
        """
        hints = get_type_hints(type(self), include_extras=True)
        return [
            OptionInWords(name, _in_words(hints[name]), _written(getattr(self, name)), meaning)
            for name, meaning in self.descriptions().items()
        ]

    @classmethod
    def read(cls, values: dict[str, Any], source: str) -> Self:
        """Check the names, types and limits of options, which also come from files; ``source`` is the network."""
        from pydantic import ValidationError

        for name in values:
            if name not in cls.names():
                advice = f"It takes {', '.join(cls.names())}."
                raise UnknownNameError(f"option of {source}", name, cls.names(), advice)
        try:
            return _validator(cls).validate_python(values)
        except ValidationError as error:
            fault = error.errors()[0]
            message = f"{shortened(fault['msg'].lower(), 120)}, got {told(fault['input'])}"
            raise ConfigError(f"{source}: {fault['loc'][0]}: {message}.") from None


@dataclass(frozen=True, kw_only=True)
class ImageOptions(NetworkOptions):
    """The options that all networks for images share."""

    in_channels: InChannels = 3
    dropout: Dropout = 0.0


_WORDS = {int: "integer", float: "number", bool: "true or false", str: "text", NoneType: "null"}


def _in_words(annotation: Any) -> str:
    """A type as a reader of recipes calls it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _in_words(arguments[0])
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin is tuple:
        whole = arguments[1:] == (...,)
        return f"list of {_in_words(arguments[0])}s" if whole else f"[{', '.join(map(_in_words, arguments))}]"
    if arguments:
        return " or ".join(dict.fromkeys(map(_in_words, arguments)))
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _written(value: Any) -> str:
    """A value as recipes write it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@cache
def _validator(options: type[NetworkOptions]) -> Any:
    from pydantic import TypeAdapter  # here, because it would double the time that the package takes to import

    return TypeAdapter(options)
