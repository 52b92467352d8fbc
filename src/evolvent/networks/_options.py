"""Options of networks: each a declared field with type, limits, default and description."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, ValidationError

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError, UnknownNameError

Count: TypeAlias = Annotated[int, Field(ge=1)]
Readout: TypeAlias = Literal["classification", "segmentation"]

# Options that several families have, so that a family only states its own default.
NumClasses: TypeAlias = Annotated[Count, Field(description="number of classes")]
InChannels: TypeAlias = Annotated[Count, Field(description="channels of an image")]
ImageSize: TypeAlias = Annotated[
    Count | tuple[Count, Count],
    Field(description="height and width of an image, or one number for both; the linear map of the head needs them"),
]
Channels: TypeAlias = Annotated[tuple[Count, ...], Field(min_length=1, description="feature maps of each unit")]
Width: TypeAlias = Annotated[Count, Field(description="number of features or feature maps")]
Blocks: TypeAlias = Annotated[
    Count | tuple[Count, ...], Field(description="blocks (steps) of each unit, one number for all or one for each")
]
StepSize: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False, description="step size h")]
ReadoutOption: TypeAlias = Annotated[Readout, Field(description="one class per image, or one per pixel")]
HeadPool: TypeAlias = Annotated[Count, Field(description="average pooling before the linear map of the head")]
Dropout: TypeAlias = Annotated[float, Field(ge=0, lt=1, description="share of pooled features dropped in training")]
Operator: TypeAlias = Annotated[str, Field(description="kind of the operator K, such as full, lean or multigrid")]
NormOption: TypeAlias = Annotated[
    Literal["batch", "group"] | None, Field(description="normalisation inside the blocks, or none")
]
Bias: TypeAlias = Annotated[bool, Field(description="learn a bias b inside the blocks, one number per channel")]
Damping: TypeAlias = Annotated[
    float, Field(ge=0, allow_inf_nan=False, description="damping gamma of antisymmetric dynamics")
]


class NetworkOptions(Config):
    """The options of a family of networks: a field for each, with a default and a description.

    >>> NetworkOptions.read({"num_classes": 3}, "my_network")
    NetworkOptions(num_classes=3)
    """

    num_classes: NumClasses = 10

    @classmethod
    def read(cls, values: dict[str, Any], source: str) -> Self:
        """Check the names, types and limits of options, which also come from files; ``source`` is the network."""
        known = list(cls.model_fields)
        for name in values:
            if name not in known:
                raise UnknownNameError(f"option of {source}", name, known, f"It takes {', '.join(known)}.")
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            fault = error.errors()[0]
            message = f"{fault['msg'].lower()}, got {fault['input']!r}"
            raise ConfigError(f"{source}: {fault['loc'][0]}: {message}.") from None


class ImageOptions(NetworkOptions):
    """The options that all networks for images share."""

    in_channels: InChannels = 3
    dropout: Dropout = 0.0
