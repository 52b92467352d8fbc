"""What a gradient strategy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from evolvent._core.registry import Registry
from evolvent._core.state import State


class Propagator(Protocol):
    """The steps of an evolution, as a strategy sees them."""

    @property
    def steps(self) -> int: ...

    def step(self, j: int, u: State) -> State:
        """Advance the state over step ``j``."""
        ...


class GradientStrategy(ABC):
    """How the derivative of a loss with respect to parameters and initial state is had.

    Given the same evolution, all strategies return the same value; those that are ``exact`` also the same gradient.

    Attributes:
        name: how recipes call it.
        exact: whether the gradient is that of the discrete steps, up to rounding.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = True

    @abstractmethod
    def propagate(self, evolution: Propagator, u: State) -> State:
        """The state after all steps, differentiable by this strategy."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


STRATEGIES: Registry[type[GradientStrategy]] = Registry("gradient strategy")
