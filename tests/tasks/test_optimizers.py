"""Decay on weights alone."""

import pytest
import torch
from torch import nn

from evolvent.tasks.optimizers import OptimizerConfig, make_optimizer


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_decay_acts_on_matrices_and_kernels_but_not_on_biases_and_norms(name):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 3))
    optimizer = make_optimizer(model, OptimizerConfig(name=name, weight_decay=0.01))
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert {key: decays[id(p)] for key, p in model.named_parameters()} == {
        "0.weight": 0.01, "0.bias": 0, "1.weight": 0, "1.bias": 0, "3.weight": 0.01, "3.bias": 0}  # fmt: skip


def test_sgd_decay_is_the_gradient_of_half_the_squared_norm():
    layer = nn.Linear(3, 2, bias=False)
    before = layer.weight.detach().clone()
    optimizer = make_optimizer(layer, OptimizerConfig(lr=0.1, momentum=0, weight_decay=0.5))
    (layer.weight * 0).sum().backward()
    optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), before - 0.1 * 0.5 * before)


def test_frozen_parameters_are_left_out():
    layer = nn.Linear(3, 2)
    layer.bias.requires_grad_(False)
    assert sum(len(group["params"]) for group in make_optimizer(layer, OptimizerConfig()).param_groups) == 1
