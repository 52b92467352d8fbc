from functools import cache
from math import comb

import pytest
import torch

from evolvent.dynamics import Hamiltonian
from evolvent.evolution import Evolution
from evolvent.gradients import Checkpoint
from evolvent.gradients.binomial import least_advances, next_stored, stored_positions
from evolvent.integrators import Verlet


@cache
def optimum(steps: int, stored: int) -> int:
    """By dynamic programming over all schedules."""
    if steps < 2:
        return 0
    if stored == 1:
        return steps * (steps - 1) // 2
    return min(m + optimum(steps - m, stored - 1) + optimum(m, stored) for m in range(1, steps))


def test_formula_is_the_optimum():
    for steps in range(1, 40):
        for stored in range(1, 8):
            assert least_advances(steps, stored) == optimum(steps, stored)


def test_two_repetitions_reach_the_binomial_number_of_steps():
    reach = comb(5 + 2, 5)
    assert least_advances(reach, 5) < 2 * reach < least_advances(2 * reach, 5)


def test_splits_are_inside():
    assert next_stored(1, 3) == 1
    assert next_stored(7, 1) == 7
    assert all(0 < next_stored(n, s) < n for n in range(2, 30) for s in range(2, 6))
    assert stored_positions(1, 4) == [0]
    assert stored_positions(4, 99) == [0, 1, 2, 3]


@pytest.mark.parametrize("steps", [1, 2, 7, 12])
@pytest.mark.parametrize("stored", [1, 2, 3, 5, 20])
def test_strategy_computes_as_few_steps_as_possible(steps, stored, monkeypatch):
    flow, count = Evolution(Hamiltonian(1), Verlet(), steps=steps, step_size=0.1, gradient=Checkpoint(stored=stored)), 0
    step = flow.step

    def counting(j, u):
        nonlocal count
        count += 1
        return step(j, u)

    monkeypatch.setattr(flow, "step", counting)
    flow(torch.randn(1, 2, 2, 2)).sum().backward()
    # besides the schedule's: the last step of the forward pass, whose value the loss needs, and the differentiated ones
    assert count == optimum(steps, stored) + 1 + steps
