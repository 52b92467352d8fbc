import math

import pytest
import torch

from evolvent.integrators import Leapfrog
from evolvent.testing import Problem, observed_order, problem_for


def test_leapfrog_is_its_formula(dynamics_for):
    f, h, t = dynamics_for(Leapfrog()), 0.3, 1.2
    before, now = torch.randn(2, 2, 3, dtype=torch.float64)
    kept, after = Leapfrog().step(f, t, (before, now), h)
    assert kept is now
    torch.testing.assert_close(after, 2 * now - before + h**2 * f.acceleration(t, now), rtol=0, atol=1e-14)


def test_first_step_is_a_taylor_step(dynamics_for):
    f, h = dynamics_for(Leapfrog()), 0.3
    u, v = torch.randn(2, 2, 3, dtype=torch.float64)
    first, _ = Leapfrog().finish(Leapfrog().step(f, 0.0, Leapfrog().start(f, 0.0, (u, v), h), h), h)
    torch.testing.assert_close(first, u + h * v + h**2 / 2 * f.acceleration(0.0, u), rtol=0, atol=1e-14)


def test_velocity_is_of_first_order():
    known = problem_for(Leapfrog())
    velocity = Problem("velocity", known.dynamics, known.solution, known.end, observe=lambda u: u[1])
    assert observed_order(Leapfrog(), velocity) == pytest.approx(1, abs=0.15)


def test_frequency_is_that_of_the_method():
    """On u'' = -u the discrete frequency w solves sin(w h / 2) = h / 2."""
    from evolvent.testing.stability import Oscillator

    h, steps, one = 0.5, 40, torch.ones(1, dtype=torch.float64)
    u = Leapfrog().start(Oscillator(), 0.0, (one, 0 * one), h)
    for j in range(steps):
        u = Leapfrog().step(Oscillator(), j * h, u, h)
    frequency = 2 / h * math.asin(h / 2)
    assert u[1].item() == pytest.approx(math.cos(frequency * steps * h), abs=1e-12)
