"""References against closed forms, independent files and each other; the order of the method."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from evolvent.equations.references import ColeHopf, Etdrk4, PeriodicEquation, solve_periodic
from evolvent.errors import ConfigError, NonFiniteError, ShapeError

BURGERS = PeriodicEquation(lambda k: -0.05 * k**2, flux=lambda u: u**2 / 2)
ALLEN_CAHN = PeriodicEquation(lambda k: 5 - 1e-4 * k**2, source=lambda u: -5 * u**3)
SCHROEDINGER = PeriodicEquation(lambda k: -0.5j * k**2, source=lambda u: 1j * abs(u) ** 2 * u, real=False)


def stored_file(name):
    path = Path(os.environ.get("EVOLVENT_DATA", "")) / "pde" / name
    if not path.is_file():
        pytest.skip(f"needs pde/{name} in EVOLVENT_DATA")
    from scipy.io import loadmat

    return loadmat(path)


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def test_the_order_is_four():
    errors = []
    for steps in (20, 40, 80):
        method = Etdrk4(BURGERS, 2.0, 128, 0.5 / steps)
        v = method.to_waves(-np.sin(np.pi * np.arange(128) / 64))
        for _ in range(steps):
            v = method.step(v)
        points = torch.tensor([[x, 0.5] for x in np.arange(128) / 64])
        errors.append(np.abs(method.to_values(v) - ColeHopf(0.05)(points)[:, 0].numpy()).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(Etdrk4.order, abs=0.3)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(Etdrk4.order, abs=0.3)


def test_coefficients_are_those_of_their_series_near_zero():
    method = Etdrk4(PeriodicEquation(lambda k: 1e-7 * k), 2 * np.pi, 8, 0.1)
    assert np.allclose([method.q[1], method.f1[1], method.f2[1], method.f3[1]], [0.05, 0.1 / 6, 0.1 / 3, 0.1 / 6])


def test_solutions_travel_and_decay_exactly():
    drift = PeriodicEquation(lambda k: -2j * k - 0.1 * k**2 + 0.3j * k**3)  # u_t = -2 u_x + 0.1 u_xx - 0.3 u_xxx
    u = solve_periodic(drift, lambda x: np.cos(2 * x), 0, 2 * np.pi, 1.5, modes=16)
    points = torch.rand(40, 2) * torch.tensor([9.0, 1.5])
    x, t = points.double().unbind(1)
    torch.testing.assert_close(
        u(points)[:, 0], torch.exp(-0.4 * t) * torch.cos(2 * x - 4 * t + 2.4 * t), atol=1e-11, rtol=0
    )


def test_a_soliton_of_korteweg_and_de_vries():
    speed = 16.0

    def soliton(x):
        return 3 * speed / np.cosh(np.sqrt(speed) / 2 * (x + 1.0)) ** 2

    kdv = PeriodicEquation(lambda k: 1j * k**3, flux=lambda u: u**2 / 2)
    u = solve_periodic(kdv, soliton, -6, 6, 0.1, modes=256, stored=11, tolerance=1e-8)
    assert np.abs(u.values[-1] - soliton(u.grid - speed * 0.1)).max() < 1e-6 * 3 * speed


def test_a_standing_wave_of_schroedingers_equation():
    u = solve_periodic(SCHROEDINGER, lambda x: 1 / np.cosh(x), -16, 16, 1.0, modes=256, stored=11, tolerance=1e-9)
    x = torch.linspace(-3, 3, 7).double()
    both = u(torch.stack([x, torch.full_like(x, 0.7)], 1))
    torch.testing.assert_close(
        both[:, 0] + 1j * both[:, 1], torch.exp(torch.tensor(0.35j)) / torch.cosh(x) + 0j, atol=1e-6, rtol=0
    )
    assert both.shape == (7, 2)


def test_kuramoto_sivashinsky_keeps_its_mean():
    equation = PeriodicEquation(lambda k: k**2 - k**4, flux=lambda u: u**2 / 2)
    u = solve_periodic(
        equation,
        lambda x: np.cos(x / 16) * (1 + np.sin(x / 16)),
        0,
        32 * np.pi,
        20.0,
        modes=128,
        stored=21,
        tolerance=1e-8,
    )
    assert np.abs(u.values.mean(1) - u.values[0].mean()).max() < 1e-12
    assert u.difference <= 1e-8


def test_burgers_by_two_methods():
    u = solve_periodic(BURGERS, lambda x: -np.sin(np.pi * x), -1, 1, 1.0, modes=256, tolerance=1e-10)
    points = torch.rand(200, 2, dtype=torch.float64) * torch.tensor([2.0, 1.0]) - torch.tensor([1.0, 0.0])
    torch.testing.assert_close(u(points), ColeHopf(0.05)(points), atol=1e-9, rtol=0)


def test_allen_cahn_is_that_of_the_published_file():
    stored = stored_file("AC.mat")
    u = solve_periodic(ALLEN_CAHN, lambda x: x**2 * np.cos(np.pi * x), -1, 1, 1.0, tolerance=1e-9)
    assert np.allclose(u.grid, stored["x"].ravel())
    assert relative(u.values, stored["uu"].T) < 1e-8


def test_burgers_is_that_of_the_published_file():
    stored = stored_file("burgers_shock.mat")
    x, t = (torch.tensor(stored[name].ravel()) for name in "xt")
    points = torch.cartesian_prod(x, t)
    assert relative(ColeHopf(0.01 / math.pi)(points).view(len(x), len(t)).numpy(), stored["usol"]) < 1e-8


def cole_hopf_by_many_nodes(x, t, viscosity):
    y = np.linspace(-1, 1, 400_001) * max(3.0, 9 * (4 * viscosity * t) ** 0.5)
    exponent = -np.cos(np.pi * (x - y)) / (2 * np.pi * viscosity) - y * y / (4 * viscosity * t)
    weight = np.exp(exponent - exponent.max())
    return -(np.sin(np.pi * (x - y)) * weight).sum() / weight.sum()


@pytest.mark.parametrize(
    ("viscosity", "t"),
    [(0.01 / math.pi, 1.0), (0.01 / math.pi, 1e-6), (0.01, 10.0), (0.1, 10.0), (2e-4, 1.0), (1e-5, 1.0), (10.0, 0.01)],
)
def test_burgers_has_as_many_nodes_as_it_needs(viscosity, t):
    x = torch.linspace(-0.98, 0.98, 9, dtype=torch.float64)
    found = ColeHopf(viscosity)(torch.stack([x, torch.full_like(x, t)], 1))[:, 0].numpy()
    expected = [cole_hopf_by_many_nodes(one, t, viscosity) for one in x.tolist()]
    assert relative(found, np.array(expected)) < 1e-9
    assert ColeHopf(viscosity)(torch.zeros(0, 2)).shape == (0, 1)


def test_times_between_and_beyond():
    u = solve_periodic(PeriodicEquation(lambda k: -(k**2)), np.sin, 0, 2 * np.pi, 1.0, modes=8, stored=4)
    assert u(torch.zeros(0, 2)).shape == (0, 1)
    assert u(torch.tensor([[1.0, 0.5]])).item() == pytest.approx(
        np.exp(-0.5) * np.sin(1.0), abs=1e-3
    )  # four stored times
    with pytest.raises(ConfigError, match=r"from 0 to 1, got 0\.5 to 1\.5"):
        u(torch.tensor([[0.0, 0.5], [0.0, 1.5]]))
    with pytest.raises(ShapeError, match="points"):
        u(torch.zeros(3))
    with pytest.raises(ShapeError, match="points"):
        ColeHopf()(torch.zeros(3, 1))


def test_an_equation_that_cannot_be_followed_says_so():
    explosive = PeriodicEquation(lambda k: 0 * k, source=lambda u: u**2)  # infinite at t = 1
    with pytest.raises(NonFiniteError, match="a shorter time"):
        solve_periodic(explosive, lambda x: 1 + 0 * x, 0, 1, 2.0, modes=4, stored=3, most_steps=64)
