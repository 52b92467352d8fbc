"""Costs by layer: their sums are the costs of the whole."""

import pytest
import torch
from torch import nn

from evolvent import set_gradient
from evolvent.analysis import activation_bytes, count_multiply_adds, count_parameters, layer_costs


@pytest.mark.parametrize("strategy", ["backprop", "checkpoint"])
def test_sums_over_layers_are_the_totals(any_network, images, strategy):
    set_gradient(any_network, strategy)
    table = layer_costs(any_network, images, repeats=2)
    assert table.total.parameters == count_parameters(any_network)
    assert table.total.multiply_adds == count_multiply_adds(any_network, images[0])
    assert table.total.activation_bytes == activation_bytes(any_network, images)
    for what in ("parameters", "multiply_adds", "activation_bytes"):
        assert sum(getattr(layer, what) for layer in (*table.layers, *table.between)) == getattr(table.total, what)
    assert sum(layer.seconds for layer in (*table.layers, *table.between)) == pytest.approx(table.total.seconds)
    assert table.batch_size == 3
    assert table.plain_seconds > 0


def test_each_step_is_a_layer(network, images):
    table = layer_costs(network(), images, repeats=1)
    layers = {layer.name: layer for layer in table.layers}
    steps = [layers[f"body.0.dynamics.{j}"] for j in range(2)]
    assert list(layers) == ["stem", "body.0.dynamics.0", "body.0.dynamics.1", "body.1", "body.2.dynamics.0",
                            "body.2.dynamics.1", "head"]  # fmt: skip
    assert [layer.name for layer in table.between] == ["body.0", "body.2", "in between"]
    assert steps[0].kind == "Hamiltonian"
    assert steps[0].parameters == 2 * 2 * 2 * 9
    assert steps[0].multiply_adds == steps[1].multiply_adds == 4 * (2 * 2 * 9 * 64)
    assert steps[0].activation_bytes >= steps[1].activation_bytes > 0  # the first also keeps what it was given
    assert layers["head"].parameters == 8 * 2 * 2 * 10 + 10
    assert all(layer.seconds > 0 for layer in steps)


def test_networks_without_evolutions():
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.ReLU(), nn.Conv2d(4, 2, 1)))
    table = layer_costs(plain, torch.zeros(2, 3, 5, 5), repeats=1)
    assert [layer.name for layer in table.layers] == ["0", "1"]
    assert table.layers[1].parameters == 10
    [alone] = layer_costs(nn.Linear(3, 2), torch.zeros(2, 3), repeats=1).between
    assert (alone.name, alone.parameters) == ("in between", 8)


def test_frozen_parameters_do_not_count_and_nothing_is_touched(network, images):
    model = network(dropout=0.5)
    model.stem.weight.requires_grad_(False)
    numbers = torch.random.get_rng_state()
    table = layer_costs(model, images, repeats=1)
    assert table.layers[0].parameters == 0
    assert torch.equal(numbers, torch.random.get_rng_state())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
