"""What a right-hand side is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from evolvent._core.state import State


class Dynamics(nn.Module, ABC):
    r"""A right-hand side :math:`F(t, u; \theta)` of :math:`u' = F`.

    Subclasses know an equation; they know neither step size nor method.
    """

    @abstractmethod
    def forward(self, t: float, u: State) -> State:
        """The derivative of the state at time ``t``."""


class PartitionedDynamics(Dynamics):
    r"""A system of two parts that drive each other:
    :math:`y' = f(t, z),\; z' = g(t, y)` with state :math:`u = (y, z)`.
    """

    @abstractmethod
    def dy(self, t: float, z: Tensor) -> Tensor:
        """:math:`f(t, z)`."""

    @abstractmethod
    def dz(self, t: float, y: Tensor) -> Tensor:
        """:math:`g(t, y)`."""

    def forward(self, t: float, u: State) -> State:
        y, z = u
        return self.dy(t, z), self.dz(t, y)
