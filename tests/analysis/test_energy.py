"""Energy: kept by Verlet, gained under Euler, lost in a gradient flow."""

import pytest
import torch

from evolvent import create_model
from evolvent.analysis import energy_drift, largest_stable_step
from evolvent.dynamics import Hamiltonian, Parabolic, Residual
from evolvent.errors import ConfigError
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, Verlet


def hamiltonian_flow(method, steps: int = 60) -> Evolution:
    torch.manual_seed(0)
    return Evolution(Hamiltonian(3, activation="tanh").double(), method, steps=steps, step_size=0.1)


def test_verlet_keeps_the_energy_and_euler_does_not():
    u0 = torch.randn(2, 6, 6, 6, dtype=torch.float64)
    kept, gained = (energy_drift(hamiltonian_flow(method), u0) for method in (Verlet(), Euler()))
    assert kept.kind == gained.kind == "energy"
    assert max(map(abs, kept.values)) < 0.05
    assert gained.values[-1] > 5 * max(map(abs, kept.values))
    assert list(gained.values) == sorted(gained.values)
    assert gained.values[0] == 0.0
    assert gained.times[-1] == pytest.approx(6.0)


def test_euler_multiplies_the_energy_of_an_oscillation(oscillator):
    found = energy_drift(oscillator(Euler(), omega=2.0, steps=10, h=0.1), torch.randn(3, 4, dtype=torch.float64))
    assert found.values[-1] == pytest.approx((1 + 0.2**2) ** 10 - 1)


def test_a_change_of_the_equation_is_no_drift():
    blocks = [Hamiltonian(2, activation="tanh").double() for _ in range(8)]
    evolution = Evolution(blocks, Verlet(), step_size=1e-3)
    found = energy_drift(evolution, torch.randn(2, 4, 6, 6, dtype=torch.float64))
    assert max(map(abs, found.values)) < 1e-4


def test_gradient_flow_loses_energy():
    evolution = Evolution(Parabolic(3), Euler(), steps=5, step_size=0.05)
    found = energy_drift(evolution, torch.randn(2, 3, 6, 6))
    assert found.kind == "energy"
    assert list(found.values) == sorted(found.values, reverse=True)


def test_dynamics_without_an_energy_give_the_norm(linear_flow):
    found = energy_drift(linear_flow(-torch.eye(3, dtype=torch.float64), Euler(), steps=2), torch.ones(4, 3).double())
    assert found.kind == "norm"
    assert found.values == pytest.approx((0.0, -0.1, -0.19))
    assert energy_drift(Evolution([Residual(3)], Euler()), torch.zeros(2, 3, 4, 4)).values[0] == 0.0


def test_an_evolution_without_steps_has_one_value():
    assert energy_drift(Evolution([], Euler()), torch.ones(1, 3)).values == (0.0,)


@pytest.mark.parametrize("measure", [energy_drift, largest_stable_step])
def test_a_whole_network_is_refused(measure):
    network = create_model("hamiltonian", channels=(4,), blocks=1, image_size=8)
    with pytest.raises(ConfigError, match=f"{measure.__name__} takes one evolution .* got ImageNetwork"):
        measure(network, torch.randn(2, 3, 8, 8))
