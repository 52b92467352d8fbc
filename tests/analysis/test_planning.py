import copy

import pytest
import torch
from torch import nn

import evolvent as ev
from evolvent._core.formats import format_bytes
from evolvent.analysis.planning import GradientPlan, StrategyCost, peak_bytes, read_bytes
from evolvent.errors import ConfigError, EvolventError
from evolvent.gradients import Backprop, Checkpoint, Reversible

SHAPE = (32, 3, 16, 16)


def deep() -> nn.Module:
    return ev.create_model("hamiltonian", channels=(8, 8), blocks=12, image_size=16, norm="batch")


@pytest.fixture(scope="module")
def roomy() -> GradientPlan:
    return ev.plan(deep(), SHAPE, memory="100GiB", rounds=1)


def test_every_strategy_is_measured_and_the_fastest_taken(roomy):
    kinds = [type(cost.strategy) for cost in roomy.costs]
    assert set(kinds) == {Backprop, Checkpoint, Reversible}
    assert len(kinds) == 4
    assert roomy.chosen is roomy.costs[0]
    assert [cost.seconds for cost in roomy.costs] == sorted(cost.seconds for cost in roomy.costs)


def test_backprop_needs_the_most_memory_and_reversible_the_least(roomy):
    by_text = {cost.strategy.text: cost.memory for cost in roomy.costs}
    assert max(by_text, key=by_text.__getitem__) == "backprop"
    assert min(by_text, key=by_text.__getitem__) == "reversible"
    assert by_text["backprop"] > 3 * by_text["reversible"]


def test_the_fastest_that_fits_is_taken(roomy):
    least = min(cost.memory for cost in roomy.costs)
    tight = ev.plan(deep(), SHAPE, memory=round(least * 1.05), rounds=1)
    assert isinstance(tight.chosen.strategy, Reversible)
    model = deep()
    tight.apply(model)
    assert all(isinstance(e.gradient, Reversible) for _, e in ev.evolutions(model))
    with pytest.raises(ConfigError, match=r"no gradient strategy fits 1.0 KiB .* least is .* by 'reversible'"):
        ev.plan(deep(), SHAPE, memory="1KiB", rounds=1)


def test_estimate_for_the_batch_is_its_measure(roomy):
    model = deep()
    for cost in roomy.costs:
        ev.set_gradient(model, cost.strategy)
        model(torch.randn(SHAPE)).square().mean().backward()
        assert cost.memory == pytest.approx(peak_bytes(model, torch.randn(SHAPE)), rel=0.05)


def test_methods_that_cannot_be_undone_are_not_offered_reversible():
    found = ev.plan(ev.create_model("resnet", channels=(4,), blocks=3), (8, 3, 8, 8), rounds=1)
    assert not any(isinstance(cost.strategy, Reversible) for cost in found.costs)


def test_model_and_random_numbers_are_not_touched():
    model, state = deep(), torch.get_rng_state()
    before = copy.deepcopy(model.state_dict())
    ev.plan(model, SHAPE, rounds=1, strategies=[Reversible()])
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert all(isinstance(e.gradient, Backprop) for _, e in ev.evolutions(model))


def test_table_marks_the_choice():
    fast, small = StrategyCost(Backprop(), 3 * 2**20, 0.1), StrategyCost(Reversible(5), 2**20, 0.13)
    shown = str(GradientPlan(16, 2 * 2**20, (fast, small), small))
    assert "* reversible:5" in shown
    assert "1.30 x" in shown
    assert "within 2.0 MiB, for a batch of 16" in shown


def test_model_without_evolutions():
    with pytest.raises(ConfigError, match="no evolutions"):
        ev.plan(nn.Linear(2, 2), (4, 2))


def test_strategies_may_be_texts():
    found = ev.plan(deep(), SHAPE, strategies=["checkpoint:2", Reversible()], rounds=1)
    assert sorted(cost.strategy.text for cost in found.costs) == ["checkpoint:2", "reversible"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategies": []}, r"at least one gradient strategy, .* got \[\]"),
        ({"strategies": "reversible"}, "a list of at least one gradient strategy, .* got 'reversible'"),
        ({"strategies": 3}, "at least one gradient strategy, .* got 3"),
        ({"strategies": ["checkpont:2"]}, "Did you mean 'checkpoint'"),
        ({"strategies": [3]}, "named by a text such as 'checkpoint:4', got int 3"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1, got 0"),
    ],
)
def test_settings_of_a_wrong_kind_are_refused(options, message):
    with pytest.raises(EvolventError, match=message):
        ev.plan(deep(), SHAPE, **options)


def test_model_without_parameters():
    with pytest.raises(ConfigError, match="the model has no parameters"):
        ev.plan(nn.ReLU(), SHAPE)


@pytest.mark.parametrize("shape", [32, (32,), (0, 3, 16, 16), "32"])
def test_shape_is_that_of_a_batch(shape):
    with pytest.raises(ConfigError, match="input_shape is that of a batch, such as"):
        ev.plan(deep(), shape)


def test_a_tensor_for_a_shape_is_named_without_its_values():
    with pytest.raises(ConfigError, match=r"got float32 of shape \(2, 3, 16, 16\)\."):
        ev.plan(deep(), torch.randn(2, 3, 16, 16))


def test_bytes_are_formatted():
    assert read_bytes("500 MB") == 500_000_000
    assert read_bytes("2gib") == 2 * 2**30
    assert read_bytes(7) == read_bytes("7") == 7
    assert [format_bytes(n) for n in (5, 2048, 5 * 2**30)] == ["5 B", "2.0 KiB", "5.0 GiB"]
    for wrong in (-5, "much", "2 XB", "-1GiB"):
        with pytest.raises(ConfigError, match="memory is a number of bytes"):
            read_bytes(wrong)
