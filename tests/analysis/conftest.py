"""Linear systems, of which everything is known, and small networks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from evolvent import create_model
from evolvent.dynamics import Dynamics, PartitionedDynamics
from evolvent.evolution import Evolution
from evolvent.integrators import Integrator


class Linear(Dynamics):
    r""":math:`u' = A u`."""

    matrix: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix)

    def forward(self, t, u):
        return u @ self.matrix.mT


class Oscillator(PartitionedDynamics):
    r""":math:`y' = \omega z,\; z' = -\omega y`."""

    def __init__(self, omega: float) -> None:
        super().__init__()
        self.omega = omega

    def dy(self, t, z):
        return self.omega * z

    def dz(self, t, y):
        return -self.omega * y

    def energy(self, y, z):
        return (y**2 + z**2).flatten(1).sum(1)


@pytest.fixture
def linear_flow() -> Callable[..., Evolution]:
    def build(matrix: Tensor, method: Integrator, steps: int = 6, h: float = 0.1) -> Evolution:
        return Evolution(Linear(matrix), method, steps=steps, step_size=h)

    return build


@pytest.fixture
def oscillator() -> Callable[..., Evolution]:
    def build(method: Integrator, omega: float = 2.0, steps: int = 40, h: float = 0.1) -> Evolution:
        return Evolution(Oscillator(omega), method, steps=steps, step_size=h)

    return build


@pytest.fixture
def network() -> Callable[..., nn.Module]:
    """A small image network for 3x8x8 images, in training mode."""

    def build(name: str = "hamiltonian", **options) -> nn.Module:
        size = {"image_size": 8} if name == "hamiltonian" else {}
        return create_model(name, **{"channels": (4, 8), "blocks": 2, **size, **options})

    return build


@pytest.fixture
def images() -> Tensor:
    return torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=["resnet", "preresnet", "hamiltonian"])
def any_network(request: pytest.FixtureRequest, network) -> nn.Module:
    return network(request.param)
