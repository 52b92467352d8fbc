"""Networks by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent._core.registry import Registry


@dataclass(frozen=True)
class ModelEntry:
    """A registered network.

    Attributes:
        build: the family's builder; its keyword arguments are the options.
        options: what this name fixes of them.
        family: the name of the family.
        papers: keys into the table of papers.
        recipe: a recipe that trains it, or the nearest of its kin.
    """

    name: str
    build: Callable[..., nn.Module]
    family: str
    papers: tuple[str, ...]
    recipe: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """First line of the builder's docstring."""
        return (inspect.getdoc(self.build) or "").split("\n")[0]

    def known_options(self) -> list[str]:
        return list(inspect.signature(self.build).parameters)


@dataclass(frozen=True)
class ModelSpec:
    """How a network was made: enough to build it again."""

    name: str
    options: dict[str, Any]


MODELS: Registry[ModelEntry] = Registry("network", "`evolvent models` lists all of them.")


def register_family(
    name: str, *, papers: tuple[str, ...], recipe: str
) -> Callable[[Callable[..., nn.Module]], Callable[..., nn.Module]]:
    """Register a builder whose keyword arguments span a family of networks."""

    def add(build: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
        MODELS.add(name, ModelEntry(name, build, name, papers, recipe))
        return build

    return add


def register_member(
    name: str, family: str, *, recipe: str | None = None, papers: tuple[str, ...] = (), **options: Any
) -> None:
    """Register a network of a family that fixes some of the family's options; ``papers`` come before the family's."""
    parent = MODELS.registered(family)
    MODELS.add(name, ModelEntry(name, parent.build, family, papers + parent.papers, recipe or parent.recipe, options))


def list_models(pattern: str = "*") -> list[str]:
    """Names of all networks that match a shell pattern.

    >>> list_models("resnet*")
    ['resnet', 'resnet44']
    """
    return MODELS.names(pattern)


def model_entry(name: str) -> ModelEntry:
    """What is registered under a name."""
    return MODELS.get(name)


def create_model(name: str, **options: Any) -> nn.Module:
    """Build a registered network.

    Args:
        name: one of :func:`list_models`.
        options: the family's keyword arguments, for example ``num_classes`` and ``in_channels``.

    >>> create_model("resnet", channels=(8, 16), blocks=2, in_channels=1)(__import__("torch").zeros(1, 1, 16, 16)).shape
    torch.Size([1, 10])
    """
    entry = MODELS.get(name)
    for key in options:
        if key not in entry.known_options():
            advice = f"It takes {', '.join(entry.known_options())}."
            raise UnknownNameError(f"option of {name}", key, entry.known_options(), advice)
    model = _checked_build(entry, {**entry.options, **options})
    vars(model)["spec"] = ModelSpec(name, dict(options))
    return model


def _checked_build(entry: ModelEntry, options: dict[str, Any]) -> nn.Module:
    """Build with every option's type checked, since options also come from files."""
    from pydantic import ValidationError, validate_call

    try:
        return validate_call(entry.build)(**options)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        raise ConfigError(f"{entry.name}: {key}: {fault['msg'].lower()}, got {fault['input']!r}.") from None
