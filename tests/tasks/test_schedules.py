"""Learning rates over time."""

import pytest

from evolvent.tasks.schedules import ScheduleConfig, learning_rate_factor


def test_multistep_falls_at_its_milestones():
    config = ScheduleConfig(name="multistep", milestones=(4, 2), gamma=0.5)
    assert [learning_rate_factor(config, t, 6) for t in (0, 1.99, 2, 3.9, 4, 6)] == [1, 1, 0.5, 0.5, 0.25, 0.25]


def test_exponential_falls_in_every_epoch_from_a_given_one():
    config = ScheduleConfig(name="exponential", gamma=0.7, after=5)
    factors = [learning_rate_factor(config, t, 30) for t in (0, 4.99, 5, 5.5, 6, 29.9)]
    assert factors == pytest.approx([1, 1, 0.7, 0.7, 0.49, 0.7**25])


def test_cosine_ends_at_its_floor_after_a_linear_warm_up():
    config = ScheduleConfig(name="cosine", warmup=2, floor=0.1)
    assert [learning_rate_factor(config, t, 10) for t in (0, 1, 2)] == [0, 0.5, 1]
    assert learning_rate_factor(config, 6, 10) == pytest.approx(0.55)
    assert learning_rate_factor(config, 10, 10) == pytest.approx(0.1)
    values = [learning_rate_factor(config, 2 + k / 10, 10) for k in range(81)]
    assert values == sorted(values, reverse=True)


def test_constant_is_constant():
    assert {learning_rate_factor(ScheduleConfig(), t, 5) for t in range(6)} == {1.0}
