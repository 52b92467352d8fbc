"""What a time-stepping method is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from evolvent._core.state import State
from evolvent.dynamics import Dynamics

F = TypeVar("F", bound=Dynamics)


class Integrator(ABC, Generic[F]):
    """A one-step method, or a multistep method that carries its history in the state.

    Claims are class attributes, and one test over all methods measures them.

    Attributes:
        order: the error over a fixed time falls like :math:`h^{order}`.
        acts_on: the kind of dynamics the method needs.
    """

    order: ClassVar[int]
    acts_on: ClassVar[type[Dynamics]] = Dynamics

    @property
    def reversible(self) -> bool:
        """Whether a step can be undone exactly (up to rounding) from its result."""
        return isinstance(self, ReversibleIntegrator)

    def start(self, f: F, t: float, u: State, h: float) -> State:
        """The method's own state for the value ``u``; multistep methods add their history here."""
        return u

    @abstractmethod
    def step(self, f: F, t: float, u: State, h: float) -> State:
        """The state at ``t + h`` from the state ``u`` at ``t``."""

    def finish(self, u: State) -> State:
        """The value in a method's state."""
        return u

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ReversibleIntegrator(Integrator[F]):
    """A method whose steps can be undone, so that training need not store the states."""

    @abstractmethod
    def unstep(self, f: F, t: float, u: State, h: float) -> State:
        """The state at ``t`` from the state ``u`` at ``t + h``: the inverse of :meth:`step`."""
