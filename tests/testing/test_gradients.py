import pytest
import torch

from evolvent.dynamics import Hamiltonian, Residual
from evolvent.evolution import Evolution
from evolvent.gradients import Backprop
from evolvent.integrators import Euler, Verlet
from evolvent.testing import check_gradient


def flow() -> Evolution:
    return Evolution([Hamiltonian(1, bias=True), Hamiltonian(1, bias=True)], Verlet(), step_size=0.1)


class WrongValue(Backprop):
    def propagate(self, evolution, u):
        return tuple(1.001 * p for p in super().propagate(evolution, u))


class Truncated(Backprop):
    """Forgets the steps before the last."""

    def propagate(self, evolution, u):
        with torch.no_grad():
            for j in range(evolution.steps - 1):
                u = evolution.step(j, u)
        return evolution.step(evolution.steps - 1, u)


class Doubled(Backprop):
    """Gives twice the gradient."""

    def propagate(self, evolution, u):
        return tuple(2 * p - p.detach() for p in super().propagate(evolution, u))


class Rough(Doubled):
    exact = False


class Twice(Backprop):
    """Computes everything a second time, as careless recomputation does."""

    def propagate(self, evolution, u):
        super().propagate(evolution, u)
        return super().propagate(evolution, u)


u0 = torch.linspace(-1, 1, 2 * 2 * 3 * 3).view(2, 2, 3, 3)


def test_backprop_passes_on_tensors_and_pairs():
    check_gradient(Backprop(), flow(), u0)
    check_gradient(Backprop(), flow(), tuple(u0.chunk(2, 1)))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (WrongValue, r"WrongValue\(\) gives a value .* claimed the same"),
        (Truncated, "disagree whether"),
        (Doubled, r"gradient .* from backpropagation's, claimed at most 1e-10"),
    ],
)
def test_faults_are_found(kind, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_gradient(kind(), flow(), u0)


def test_inexact_strategies_are_held_to_what_they_are_given():
    check_gradient(Rough(), flow(), u0)
    with pytest.raises(AssertionError, match=r"claimed at most 0\.1"):
        check_gradient(Rough(), flow(), u0, tolerance=0.1)


def test_running_statistics_counted_twice_are_found():
    evolution = Evolution([Residual(2)], Euler())
    with pytest.raises(AssertionError, match=r"leaves the buffer .*running_mean"):
        check_gradient(Twice(), evolution, u0)


def test_evolution_and_random_numbers_are_left_alone():
    evolution = flow()
    before = torch.random.get_rng_state()
    check_gradient(Backprop(), evolution, u0)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(p.grad is None and p.dtype == torch.float32 for p in evolution.parameters())
