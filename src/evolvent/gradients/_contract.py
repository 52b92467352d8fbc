"""What a gradient strategy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, Self

from torch import nn

from evolvent._core.checks import described
from evolvent._core.errors import ConfigError
from evolvent._core.registry import Registry
from evolvent._core.state import State
from evolvent.dynamics import Dynamics
from evolvent.integrators import Integrator


class Propagator(Protocol):
    """The steps of an evolution, as a strategy sees them."""

    @property
    def steps(self) -> int: ...

    @property
    def step_size(self) -> float: ...

    @property
    def integrator(self) -> Integrator[Any]: ...

    def step(self, j: int, u: State) -> State:
        """Advance the state over step ``j``."""
        ...

    def dynamics_at(self, j: int) -> Dynamics:
        """The right-hand side of step ``j``."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def modules(self) -> Iterator[nn.Module]: ...


class GradientStrategy(ABC):
    """How the gradient of a loss with respect to parameters and initial state is computed.

    Given the same evolution, all strategies return the same value; those that are ``exact`` also the same gradient.

    Attributes:
        name: its name in recipes.
        exact: whether the gradient is that of the discrete steps, up to rounding.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = True

    @abstractmethod
    def propagate(self, evolution: Propagator, u: State) -> State:
        """The state after all steps, differentiable by this strategy."""

    def check_method(self, integrator: Integrator[Any]) -> None:  # noqa: B027, most strategies serve every method
        """Raise :class:`~evolvent.errors.ConfigError` if the strategy cannot serve this method; called before use."""

    @classmethod
    def from_text(cls, *options: str) -> Self:
        """The strategy that a recipe writes as ``name:option:option``."""
        if options:
            raise ConfigError(f"the gradient strategy {cls.name!r} takes no options, got {':'.join(options)!r}.")
        return cls()

    @property
    def text(self) -> str:
        """How a recipe writes this strategy; :func:`make_strategy` reads it."""
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


STRATEGIES: Registry[type[GradientStrategy]] = Registry(
    "gradient strategy", "Options follow the name after colons, as in 'checkpoint:4'."
)


def make_strategy(text: str) -> GradientStrategy:
    """A registered strategy from its name and options, such as ``"backprop"`` or ``"checkpoint:binomial:5"``.

    >>> make_strategy("checkpoint:4"), make_strategy("reversible:10").text
    (Checkpoint(4), 'reversible:10')
    """
    if not isinstance(text, str):
        raise ConfigError(f"a gradient strategy is named by a text such as 'checkpoint:4', got {described(text)}.")
    name, *options = text.split(":")
    return STRATEGIES.get(name).from_text(*options)


def whole_number(text: str, meaning: str) -> int:
    """A whole number of at least 1 from a strategy's option."""
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{meaning} must be a whole number of at least 1, got {text!r}.")
    return int(text)
