from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from evolvent.dynamics import Hamiltonian
from evolvent.dynamics.layers import ActivationName
from evolvent.integrators import Euler, Verlet


def random_hamiltonian(channels: int, bias: bool = True, activation: ActivationName = "relu") -> Hamiltonian:
    made = Hamiltonian(channels, bias=bias, activation=activation).double()
    for p in made.parameters():
        nn.init.normal_(p, std=0.5)
    return made


@given(
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(1, 4),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(get_args(ActivationName)),
)
def test_derivatives_are_the_gradients_of_the_energy(channels, batch, height, width, bias, activation):
    f = random_hamiltonian(channels, bias, activation)
    y, z = torch.randn(2, batch, channels, height, width, dtype=torch.float64, requires_grad=True).unbind(0)
    energy = f.energy(y, z)
    assert energy.shape == (batch,)
    by_y, by_z = torch.autograd.grad(energy.sum(), (y, z))
    dy, dz = f(0.0, (y, z))
    assert_close(dy, by_z, rtol=1e-12, atol=1e-12)
    assert_close(dz, -by_y, rtol=1e-12, atol=1e-12)
    assert_close(f.dy(0.0, z), dy)
    assert_close(f.dz(0.0, y), dz)


def energies(method, f: Hamiltonian, steps: int, h: float) -> torch.Tensor:
    draw = torch.Generator().manual_seed(3)
    y, z = torch.randn(2, 1, 2, 4, 4, dtype=torch.float64, generator=draw)
    found, u = [f.energy(y, z)], (y, z)
    with torch.no_grad():
        for _ in range(steps):
            u = method.step(f, 0.0, u, h)
            found.append(f.energy(*u))
    return torch.cat(found).detach()


def test_verlet_keeps_the_energy_over_1000_steps_and_euler_does_not():
    f, h = random_hamiltonian(2, bias=False), 0.02
    verlet, euler = energies(Verlet(), f, 1000, h), energies(Euler(), f, 1000, h)
    drift = (verlet / verlet[0] - 1).abs()
    assert drift.max() < 0.1
    assert drift[500:].max() < 1.5 * drift[:500].max()
    assert euler[-1] > 1.5 * euler[0]
    assert (euler.diff() > -1e-12 * euler[:-1]).all()


def test_energy_error_of_verlet_falls_with_the_step():
    f = random_hamiltonian(2, bias=False)
    coarse, fine = energies(Verlet(), f, 100, 0.04), energies(Verlet(), f, 200, 0.02)
    assert (fine - fine[0]).abs().max() < 0.6 * (coarse - coarse[0]).abs().max()


@pytest.mark.parametrize(
    ("bias", "norm", "count"), [(False, None, 2), (True, None, 4), (True, "batch", 8), (True, "group", 8)]
)
def test_options_add_their_parameters(bias, norm, count):
    assert len(list(Hamiltonian(4, bias=bias, norm=norm).parameters())) == count


def test_halves_may_differ_in_nothing_but_value(dtype):
    f = Hamiltonian(3).to(dtype)
    y, z = torch.randn(2, 2, 3, 1, 1, dtype=dtype)
    dy, dz = f(0.0, (y, z))
    assert dy.shape == dz.shape == y.shape
    assert dy.dtype == dz.dtype == dtype
