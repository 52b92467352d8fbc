"""Networks by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import nn

from evolvent._core.registry import Registry
from evolvent.networks._options import NetworkOptions
from evolvent.networks._size import check_size

Builder = TypeVar("Builder", bound=Callable[..., nn.Module])


@dataclass(frozen=True)
class ModelEntry:
    """A registered network.

    Attributes:
        build: the family's builder, which takes an object of the class ``options``.
        options: the class whose fields are the options.
        family: the name of the family.
        papers: keys into the table of papers.
        recipe: a recipe that trains it, or one of its relatives.
        fixed: the options that this name fixes.
    """

    name: str
    build: Callable[..., nn.Module]
    options: type[NetworkOptions]
    family: str
    papers: tuple[str, ...]
    recipe: str
    fixed: dict[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """First line of the builder's docstring."""
        return (inspect.getdoc(self.build) or "").split("\n")[0]

    def known_options(self) -> list[str]:
        """Names of the options."""
        return self.options.names()

    def read_options(self, given: dict[str, Any]) -> NetworkOptions:
        """All options: those given, those fixed by the name, and the defaults of the family."""
        return self.options.read({**self.fixed, **given}, self.name)


@dataclass(frozen=True)
class ModelSpec:
    """How a network was made: enough to build it again."""

    name: str
    options: dict[str, Any]


MODELS: Registry[ModelEntry] = Registry("network", "`evolvent models` lists all of them.")


def register_family(
    name: str, options: type[NetworkOptions], *, papers: tuple[str, ...], recipe: str
) -> Callable[[Builder], Builder]:
    """Register a builder, which makes a network from an object of the class ``options``.

    Args:
        name: of the family.
        options: its fields are the options of the family.
        papers: keys into the table of papers.
        recipe: name of a recipe that trains a network of the family.
    """

    def add(build: Builder) -> Builder:
        MODELS.add(name, ModelEntry(name, build, options, name, papers, recipe))
        return build

    return add


def register_member(
    name: str, family: str, *, recipe: str | None = None, papers: tuple[str, ...] = (), **options: Any
) -> None:
    """Register a network of a family that fixes some of the family's options; ``papers`` come before the family's."""
    base = MODELS.registered(family)
    papers, recipe = papers + base.papers, recipe or base.recipe
    MODELS.add(name, ModelEntry(name, base.build, base.options, family, papers, recipe, options))


def list_models(pattern: str = "*") -> list[str]:
    """Names of all networks that match a shell pattern.

    >>> list_models("hamiltonian*")
    ['hamiltonian', 'hamiltonian1202', 'hamiltonian74']
    """
    return MODELS.names(pattern)


def model_entry(name: str) -> ModelEntry:
    """What is registered under a name."""
    return MODELS.get(name)


def create_model(name: str, /, **options: Any) -> nn.Module:
    """Build a registered network.

    Args:
        name: one of :func:`list_models`.
        options: the options of its family, for example ``num_classes`` and ``in_channels``.

    >>> create_model("resnet", channels=(8, 16), blocks=2, in_channels=1)(__import__("torch").zeros(1, 1, 16, 16)).shape
    torch.Size([1, 10])
    """
    entry = MODELS.get(name)
    chosen = entry.read_options(options)
    check_size(entry.build, chosen, name)
    model = entry.build(chosen)
    vars(model)["spec"] = ModelSpec(name, dict(options))
    return model
