"""Dynamics with parameters, of every kind, that all methods are tried on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from evolvent.dynamics import Dynamics, PartitionedDynamics, SecondOrderDynamics, SplitDynamics


class Plain(Dynamics):
    """u' = tanh(K u) cos(t + 0.3), on one tensor or on each of several."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.K = nn.Linear(width, width)

    def forward(self, t, u):
        if isinstance(u, tuple):
            return tuple(self(t, p) for p in reversed(u))
        return self.K(u).tanh() * torch.tensor(t + 0.3, dtype=u.dtype).cos()


class Pair(PartitionedDynamics):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.f, self.g = Plain(width), Plain(width)

    def dy(self, t, z):
        return self.f(t, z)

    def dz(self, t, y):
        return -self.g(t, y)


class Wave(SecondOrderDynamics):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a = Plain(width)

    def acceleration(self, t, u):
        return self.a(t, u)


class Split(SplitDynamics):
    """The stiff part is the trainable scale times the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.f, self.scale = Plain(width), nn.Parameter(torch.tensor(0.7))

    def explicit(self, t, u):
        return self.f(t, u)

    def stiff(self, t, u):
        return self.scale * u

    def solve(self, t, u, h):
        return u / (1 + h * self.scale)


@pytest.fixture
def dynamics_for():
    """The dynamics, in a dtype, that a method acts on."""
    kinds = {Dynamics: Plain, PartitionedDynamics: Pair, SecondOrderDynamics: Wave, SplitDynamics: Split}

    def make(method, width=3, dtype=torch.float64):
        return kinds[method.acts_on](width).to(dtype)

    return make


@pytest.fixture
def state_for():
    """A random value that a method's dynamics take."""

    def make(method, shape=(2, 3), dtype=torch.float64):
        u = torch.randn(2, *shape, dtype=dtype)
        return tuple(u) if method.acts_on in (PartitionedDynamics, SecondOrderDynamics) else u[0]

    return make


@pytest.fixture
def run():
    """Some steps from a value to a value."""

    def steps(method, f, u, h, count=3):
        u = method.start(f, 0.0, u, h)
        for j in range(count):
            u = method.step(f, j * h, u, h)
        return method.finish(u, h)

    return steps
