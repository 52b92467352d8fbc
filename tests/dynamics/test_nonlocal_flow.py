"""Flows of nonlocal operators."""

from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from evolvent import Evolution
from evolvent.dynamics import FractionalDiffusion, NonlocalFlow, NonlocalSystem, Residual
from evolvent.integrators import ImexEuler, Strang, Verlet
from evolvent.operators import (
    FractionalLaplacian,
    InverseFractionalLaplacian,
    NonlocalDiffusion,
    SpatialFractionalLaplacian,
    SpatialInverseLaplacian,
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NonlocalDiffusion(4, "gaussian", embedding="shared", scale=0.3),
        lambda: NonlocalDiffusion(4, "gaussian", embedding="none", scale=0.3),
        lambda: FractionalLaplacian(4, 0.3, embedding="none", scale=0.1),
    ],
    ids=["shared", "none", "fractional"],
)
def test_energy_and_variance_decay(make):
    """Eq. 3.3 with its kernel held: inside Euler's stability every step takes both down, and the mean stays."""
    operator = make().double()
    u = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    frozen, v = operator.at(u), torch.randn_like(u)
    sign = 1 if isinstance(operator, NonlocalDiffusion) else -1
    path = [u]
    with torch.no_grad():
        for _ in range(100):  # power iteration for the fastest rate
            v = frozen(v / v.norm())
        for _ in range(10):
            path.append(path[-1] + 0.5 / v.norm() * sign * frozen(path[-1]))
    for measure in ([u.var((2, 3)).sum().item() for u in path], [u.square().sum().item() for u in path]):
        assert all(b < a for a, b in pairwise(measure))
    assert_close(path[-1].mean((2, 3)), path[0].mean((2, 3)))


def test_sign_damps():
    u = torch.randn(1, 4, 3, 3)
    for operator, sign in [
        (NonlocalDiffusion(4), 1),
        (FractionalLaplacian(4), -1),
        (InverseFractionalLaplacian(4), -1),
    ]:
        assert torch.equal(NonlocalFlow(operator)(0.0, u), sign * operator(u))


@pytest.mark.parametrize("boundary", ["periodic", "reflecting"])
@pytest.mark.parametrize("kind", [SpatialFractionalLaplacian, SpatialInverseLaplacian])
@pytest.mark.parametrize("method", [ImexEuler(), Strang()], ids=str)
def test_fractional_heat_flows_as_its_symbol(kind, boundary, method):
    L = kind(0.5, boundary=boundary)
    x = torch.arange(8, dtype=torch.float64) + 0.5
    wave = torch.cos(2 * torch.pi * x / 8).expand(1, 1, 8, 8)
    rate = (L(wave) / wave).mean()
    flowed = Evolution(FractionalDiffusion(L), method, steps=400, step_size=0.0025)(wave)
    assert_close(flowed, torch.exp(-rate) * wave, rtol=0, atol=2e-3)


def test_reaction_is_added():
    L, reaction, u = SpatialFractionalLaplacian(0.5), Residual(4), torch.randn(2, 4, 6, 6)
    assert_close(FractionalDiffusion(L, reaction)(0.0, u), reaction(0.0, u) - L(u))


def test_system_as_an_evolution_is_two_stages():
    """Eq. 4.2: B_1 = X + h K_1 [O X], and B_2 = X + h K_2 [O B_1] with the kernel of X."""
    x, h = torch.randn(2, 4, 3, 3), 0.2
    first, second = torch.nn.Conv2d(4, 4, 1), torch.nn.Conv2d(4, 4, 1)
    act = NonlocalDiffusion(4).at(x)
    system = NonlocalSystem(first, second, act)
    b1 = x + h * first(act(x))
    assert_close(Evolution(system, Verlet(), steps=1, step_size=h)(x), x + h * second(act(b1)))
    y, z = system(0.0, system.enter(x))
    assert_close(y, first(act(x)))
    assert_close(z, second(act(x)))
