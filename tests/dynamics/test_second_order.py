from typing import get_args

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.dynamics import SecondOrder
from evolvent.dynamics.layers import ActivationName

kinds = st.sampled_from(["dense", "full", "lean", "lean5", "multigrid"])
activations = st.sampled_from(get_args(ActivationName))


@given(kinds, st.integers(1, 3), activations, st.booleans())
def test_energy_does_not_change_along_the_flow(randomised, kind, channels, activation, bias):
    """d/dt E = <E_u, u'> + <E_v, v'> vanishes for every position and velocity."""
    f = randomised(SecondOrder(channels, 3, operator=kind, activation=activation, bias=bias))
    shape = (2, channels, *([] if kind == "dense" else [4, 3]))
    u, v = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(2))
    energy = f.energy(u, v)
    assert energy.shape == (2,)
    by_u, by_v = torch.autograd.grad(energy.sum(), (u, v))
    du, dv = f(0.0, (u, v))
    assert_close(du, v)
    rate = (by_u * du + by_v * dv).flatten(1).sum(1)
    assert_close(rate, torch.zeros_like(rate), rtol=0, atol=1e-10)


def test_leapfrog_keeps_the_energy_over_1000_steps(randomised):
    """The two-step form of the paper, u_{j+1} = 2 u_j - u_{j-1} + h^2 a(u_j), by hand."""
    f, h = randomised(SecondOrder(2, activation="tanh")), 0.02
    before = torch.randn(1, 2, 4, 4, dtype=torch.float64)
    energies = []
    with torch.no_grad():
        now = before + 0.5 * h**2 * f.acceleration(0.0, before)
        for _ in range(1000):
            after = 2 * now - before + h**2 * f.acceleration(0.0, now)
            energies.append(f.energy(now, (after - before) / (2 * h)).item())
            before, now = now, after
    drift = (torch.tensor(energies) / energies[0] - 1).abs()
    assert drift.max() < 5e-3
    assert drift[500:].max() < 1.5 * drift[:500].max()


def test_against_the_formula(randomised):
    f = randomised(SecondOrder(3, 5, norm="batch", bias=True)).eval()
    u, K = torch.randn(2, 3, 4, 5, dtype=torch.float64), f.layer.operator.weight
    inner = f.layer.norm(F.conv2d(u, K, padding=1)) + f.layer.bias[:, None, None]
    assert_close(f.acceleration(0.0, u), -F.conv_transpose2d(inner.relu(), K, padding=1))


def test_dense_against_the_formula(dtype, tolerance):
    f = SecondOrder(4, operator="dense", activation="tanh").to(dtype)
    u, K = torch.randn(3, 4, dtype=dtype), f.layer.operator.weight
    assert_close(f.acceleration(0.0, u), -torch.tanh(u @ K.T) @ K, **tolerance)


def test_features_enter_at_rest_and_leave_as_position():
    f, u = SecondOrder(3), torch.randn(2, 3, 4, 4)
    position, velocity = f.enter(u)
    assert (velocity == 0).all()
    assert_close(f.leave((position, velocity)), u)
