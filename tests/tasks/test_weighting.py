"""Weights that follow the training: their formulas, what they refuse, and that trainings with them converge."""

import math

import pytest
import torch

from evolvent.errors import ConfigError
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe
from evolvent.tasks.pde import WeightingSettings
from evolvent.tasks.pde.weighting import Weighting

HEAT = {
    "name": "heat",
    "title": "Heat",
    "question": "Is it solved?",
    "task": {"name": "pde"},
    "data": {"name": "heat", "points": 256, "grid": [32, 11], "face_points": 64},
    "model": {"name": "perceptron", "options": {"width": 12, "layers": 2}},
    "optimizer": {"name": "ssbroyden", "iterations": 50},
    "training": {"steps": 12, "epoch_steps": 4, "precision": "64-true"},
}


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_later_slabs_wait_for_earlier_ones():
    weighting = Weighting(WeightingSettings(causal=2.0, slabs=4), 5)
    squares, times = numbers(1.0, 3.0, 0.5, 0.25, 7.0), numbers(0.0, 0.2, 0.3, 0.6, 1.0)
    weighting.renew(squares, times, torch.zeros(5, 1))
    expected = [1.0, math.exp(-4), math.exp(-5), math.exp(-5.5)]  # losses of the slabs: 2, 0.5, 0.25, 7
    torch.testing.assert_close(weighting.of_slabs, numbers(*expected))
    mean = (weighting.shares(torch.arange(5), times) * squares).mean()
    assert mean.item() == pytest.approx((4 + 0.5 * expected[1] + 0.25 * expected[2] + 7 * expected[3]) / 5)


def test_attention_goes_to_large_residuals_and_keeps_the_mean():
    weighting = Weighting(WeightingSettings(attention=0.5), 4)
    for _ in range(30):
        weighting.renew(numbers(0.0, 1.0, 4.0, 16.0), torch.zeros(4), torch.zeros(4, 1))
    torch.testing.assert_close(weighting.of_points, numbers(0.0, 0.25, 0.5, 1.0), rtol=0, atol=1e-6)
    mean = (weighting.shares(torch.arange(4), torch.zeros(4)) * numbers(0.0, 1.0, 4.0, 16.0)).mean()
    assert mean.item() == pytest.approx((0.25 + 2 + 16) / 1.75, rel=1e-6)


def test_balanced_parts_have_gradients_of_one_size():
    weighting = Weighting(WeightingSettings(balance=True), 1)
    gradients = {"equation": [numbers(3.0, 4.0)], "initial": [numbers(0.3), numbers(0.4)]}
    for _ in range(40):
        weighting.rebalance(gradients)
    assert weighting.factor("equation") * 5 == pytest.approx(weighting.factor("initial") * 0.5)
    assert weighting.factor("samples") == 1


def test_pseudo_time_pulls_towards_the_last_values():
    weighting = Weighting(WeightingSettings(pseudo_time=0.5), 2)
    u = numbers(1.0, 2.0)[:, None]
    assert not weighting.drifts  # nothing to remember yet
    weighting.renew(numbers(1.0, 1.0), torch.zeros(2), u)
    assert weighting.drifts
    drift = weighting.pull(u + 1) - weighting.pull(weighting.previous[torch.tensor([1, 0])])
    torch.testing.assert_close(drift, numbers(0.0, 4.0)[:, None])


@pytest.mark.parametrize("weighting", [{"causal": 1.0, "balance": True}, {"attention": 0.9, "pseudo_time": 10.0}])
def test_trainings_with_weights_converge(tmp_path, weighting):
    recipe = {**HEAT, "task": {"name": "pde", "weighting": weighting}}
    [result] = run_grid(Recipe.read(recipe, "test"), tmp_path / "run").values()
    assert result.figures["error"] < 2e-2


def test_weights_that_do_not_fit_are_refused(tmp_path):
    def run(data, task):
        given = {**HEAT, "data": {**HEAT["data"], **data}, "task": {"name": "pde", **task}}
        run_grid(Recipe.read(given, "test"), tmp_path / "run")

    with pytest.raises(ConfigError, match=r"Set data\.fresh: false"):
        run({"fresh": True}, {"weighting": {"attention": 0.9}})
    with pytest.raises(ConfigError, match="residuals of a known equation"):
        run({"samples": 10}, {"weighting": {}, "library": {}})
    with pytest.raises(ConfigError, match="'helmholtz' has no coordinate 't'"):
        run({"name": "helmholtz"}, {"weighting": {"causal": 1.0}})
