"""What a right-hand side is, and the structures that special methods need."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from evolvent._core.errors import ShapeError
from evolvent._core.state import State, axpy


class Dynamics(nn.Module, ABC):
    r"""A right-hand side :math:`F(t, u; \theta)` of :math:`u' = F`.

    Subclasses know an equation; they know neither step size nor method. Where the state is more than one tensor,
    :meth:`enter` makes it from features and :meth:`leave` gives features back, so that networks pass plain tensors.
    """

    @abstractmethod
    def forward(self, t: float, u: State) -> State:
        """The derivative of the state at time ``t``."""

    def enter(self, features: Tensor) -> State:
        """The state that stands for one tensor of features."""
        return features

    def leave(self, u: State) -> Tensor:
        """The features in a state; undoes :meth:`enter`."""
        assert isinstance(u, Tensor)
        return u


class PartitionedDynamics(Dynamics):
    r"""A system of two parts that drive each other:
    :math:`y' = f(t, z),\; z' = g(t, y)` with state :math:`u = (y, z)`, the two channel halves of the features.
    """

    @abstractmethod
    def dy(self, t: float, z: Tensor) -> Tensor:
        """:math:`f(t, z)`."""

    @abstractmethod
    def dz(self, t: float, y: Tensor) -> Tensor:
        """:math:`g(t, y)`."""

    def change_y(self, t: float, z: Tensor, h: float) -> Tensor:
        """:math:`h f(t, z)` as a new tensor, for dynamics that compute it at less than the cost of a product."""
        return h * self.dy(t, z)

    def change_z(self, t: float, y: Tensor, h: float) -> Tensor:
        """:math:`h g(t, y)` as a new tensor."""
        return h * self.dz(t, y)

    def forward(self, t: float, u: State) -> State:
        y, z = u
        return self.dy(t, z), self.dz(t, y)

    def enter(self, features: Tensor) -> State:
        if features.ndim < 2:
            raise ShapeError(
                f"partitioned dynamics split the channels of (batch, channels, ...) in halves, got shape "
                f"{tuple(features.shape)}. Give such a tensor, or the two parts as a pair."
            )
        if features.shape[1] % 2:
            raise ShapeError(
                f"partitioned dynamics split the channels in halves, got {features.shape[1]} of them. Take an even "
                "number, or give the two parts as a pair."
            )
        y, z = features.chunk(2, dim=1)
        return y, z

    def leave(self, u: State) -> Tensor:
        return torch.cat(tuple(u), dim=1)


class SecondOrderDynamics(Dynamics):
    r"""An equation of second order, :math:`u'' = a(t, u)`, as the system :math:`u' = v,\; v' = a(t, u)`.

    Features enter at rest, :math:`v(0) = 0`.
    """

    @abstractmethod
    def acceleration(self, t: float, u: Tensor) -> Tensor:
        """:math:`a(t, u)`."""

    def forward(self, t: float, u: State) -> State:
        position, velocity = u
        return velocity, self.acceleration(t, position)

    def enter(self, features: Tensor) -> State:
        return features, torch.zeros_like(features)

    def leave(self, u: State) -> Tensor:
        return u[0]


class SplitDynamics(Dynamics):
    r"""A sum of a mild and a stiff part, :math:`u' = f(t, u) - L(t)\, u`, with :math:`L` linear, symmetric and positive
    semidefinite, for methods that treat the stiff part implicitly.
    """

    @abstractmethod
    def explicit(self, t: float, u: Tensor) -> Tensor:
        """:math:`f(t, u)`."""

    @abstractmethod
    def stiff(self, t: float, u: Tensor) -> Tensor:
        r""":math:`L(t)\, u`."""

    @abstractmethod
    def solve(self, t: float, u: Tensor, h: float) -> Tensor:
        """:math:`(I + h L(t))^{-1} u`."""

    def relax(self, t: float, u: Tensor, h: float) -> Tensor:
        r"""Follow the stiff part :math:`u' = -L(t)\, u` alone for a step; by default by backward Euler.

        Dynamics that have a better way to do so, or that act otherwise in training, override this.
        """
        return self.solve(t, u, h)

    def forward(self, t: float, u: State) -> State:
        assert isinstance(u, Tensor)
        return axpy(self.explicit(t, u), -1.0, self.stiff(t, u))
