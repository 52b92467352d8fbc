"""The multigrid solver on recurrences of numbers, and the blocks of layers that processes get."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from evolvent.gradients import layer_distribution
from evolvent.gradients.layer_distribution import Ranks, distribute
from evolvent.gradients.mgrit import Levels, Multigrid, cycles_until_exact


def decay(levels: Levels, *, rate: float = 1.0):
    """Euler steps of u' = -rate u over unit time, short and long."""
    h = rate / len(levels.steps[0])
    return lambda level, k, u: tuple(p * (1 - levels.steps[level][k].stride * h) for p in u)


@pytest.mark.parametrize(("steps", "coarsening", "count"), [(16, 2, 2), (13, 4, 2), (27, 3, 3), (1, 2, 2), (16, 2, 5)])
@pytest.mark.parametrize("backwards", [False, True])
def test_all_states_are_those_of_the_recurrence(steps, coarsening, count, backwards):
    levels, ranks = distribute(steps, coarsening, count)
    levels = levels.reversed() if backwards else levels
    start, limit = (torch.ones(2, dtype=torch.float64),), cycles_until_exact(steps, coarsening)
    states, residuals = Multigrid(levels, ranks, decay(levels)).solve(start, [start] * levels.points, 1e-14, limit)
    expected = (1 - 1 / steps) ** torch.arange(steps + 1, dtype=torch.float64)
    assert_close(torch.stack([u for (u,) in states]), expected[:, None].expand(-1, 2), rtol=1e-13, atol=1e-14)
    assert len(residuals) <= limit
    assert residuals[-1] <= 1e-14


def test_residuals_fall_by_a_factor_per_cycle():
    levels, ranks = distribute(128, 4, 2)
    start = (torch.ones(1, dtype=torch.float64),)
    _, residuals = Multigrid(levels, ranks, decay(levels)).solve(start, [start] * levels.points, 1e-12, 40)
    assert all(b < 0.1 * a for a, b in itertools.pairwise(residuals))


def test_a_solve_that_overflows_ends():
    levels, ranks = distribute(64, 8, 2)
    start = (torch.ones(1),)
    grown = Multigrid(levels, ranks, lambda level, k, u: tuple(p.square() * 1e9 for p in u))
    _, residuals = grown.solve(start, [start] * levels.points, 1e-6, 40)
    assert len(residuals) == 1


@pytest.mark.parametrize(("steps", "count", "size"), [(16, 2, 1), (16, 3, 2), (13, 2, 3), (5, 2, 4), (9, 4, 3)])
def test_processes_own_all_layers_in_order(monkeypatch, steps, count, size):
    shares = []
    for rank in range(size):
        monkeypatch.setattr(layer_distribution.dist, "get_rank", lambda group, rank=rank: rank)
        monkeypatch.setattr(layer_distribution.dist, "get_world_size", lambda group: size)
        shares.append(distribute(steps, 2, count, group=object()))  # pyright: ignore[reportArgumentType]
    assert [s.first for levels, _ in shares for s in levels.steps[0]] == list(range(steps))
    assert len({len(levels.steps) for levels, _ in shares}) == 1
    active = [ranks for levels, ranks in shares if levels.steps[0]]
    assert {ranks.active for _, ranks in shares} == {len(active)}
    assert [r.upstream for r in active] == [None, *range(len(active) - 1)]
    assert [r.downstream for r in active] == [*range(1, len(active)), None]
    assert all(r == Ranks(r.group, r.active) for levels, r in shares if not levels.steps[0])
    assert all(r.reversed().upstream == r.downstream for r in active)
