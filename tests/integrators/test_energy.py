"""Symplectic methods keep the energy of a pendulum within bounds; Euler's method does not."""

import pytest
import torch

from evolvent.dynamics import PartitionedDynamics, SecondOrderDynamics
from evolvent.integrators import Euler, ImplicitMidpoint, Leapfrog, StoermerVerlet, Verlet

STEPS, H = 1000, 0.1


class Pendulum(PartitionedDynamics):
    def dy(self, t, z):
        return z

    def dz(self, t, y):
        return -y.sin()


class SecondOrderPendulum(SecondOrderDynamics):
    def acceleration(self, t, u):
        return -u.sin()


def energies(method):
    f = SecondOrderPendulum() if method.acts_on is SecondOrderDynamics else Pendulum()
    u = method.start(f, 0.0, (torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)), H)
    found = []
    with torch.no_grad():
        for j in range(STEPS):
            u = method.step(f, j * H, u, H)
            position, velocity = method.finish(u, H)
            found.append((velocity**2 / 2 + 1 - position.cos()).item())
    return torch.tensor(found, dtype=torch.float64)


@pytest.mark.parametrize(
    ("method", "bound"),
    [(Verlet(), 0.04), (StoermerVerlet(), 1e-3), (ImplicitMidpoint(), 1e-3), (Leapfrog(), 0.05)],
    ids=lambda m: repr(m),
)
def test_energy_stays_within_bounds_that_do_not_grow(method, bound):
    drift = (energies(method) - energies(StoermerVerlet())[0]).abs()
    assert drift.max() < bound
    assert drift[STEPS // 2 :].max() < 1.05 * drift[: STEPS // 2].max()


def test_energy_of_euler_grows():
    found = energies(Euler())
    assert found[-1] > 3 * found[0]
    assert found[STEPS // 2] > 1.5 * found[0]
