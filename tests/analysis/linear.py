"""Linear systems, of which everything is known."""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.dynamics import Dynamics, PartitionedDynamics
from evolvent.evolution import Evolution
from evolvent.integrators import Integrator


class Linear(Dynamics):
    r""":math:`u' = A u`."""

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


def flow(matrix: Tensor, method: Integrator, steps: int = 6, h: float = 0.1) -> Evolution:
    return Evolution(Linear(matrix), method, steps=steps, step_size=h)
