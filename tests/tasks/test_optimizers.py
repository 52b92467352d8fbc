"""Decay on weights alone, and which optimisers evaluate the objective themselves."""

import pytest
import torch
from torch import nn

from evolvent.errors import ConfigError
from evolvent.tasks.optimizers import OptimizerConfig, make_optimizer, needs_closure, torch_optimizers


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_decay_acts_on_matrices_and_kernels_but_not_on_biases_and_norms(name):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 3))
    optimizer = make_optimizer(model.parameters(), OptimizerConfig(name=name, weight_decay=0.01))
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert {key: decays[id(p)] for key, p in model.named_parameters()} == {
        "0.weight": 0.01, "0.bias": 0, "1.weight": 0, "1.bias": 0, "3.weight": 0.01, "3.bias": 0}  # fmt: skip


def test_decay_may_act_on_all():
    layer = nn.Linear(3, 2)
    optimizer = make_optimizer(layer.parameters(), OptimizerConfig(weight_decay=0.01, decayed="all"))
    [group] = optimizer.param_groups
    assert len(group["params"]) == 2
    assert group["weight_decay"] == 0.01


def test_sgd_decay_is_the_gradient_of_half_the_squared_norm():
    layer = nn.Linear(3, 2, bias=False)
    before = layer.weight.detach().clone()
    optimizer = make_optimizer(layer.parameters(), OptimizerConfig(lr=0.1, momentum=0, weight_decay=0.5))
    (layer.weight * 0).sum().backward()
    optimizer.step()
    torch.testing.assert_close(layer.weight.detach(), before - 0.1 * 0.5 * before)


def test_frozen_parameters_are_left_out():
    layer = nn.Linear(3, 2)
    layer.bias.requires_grad_(False)
    groups = make_optimizer(layer.parameters(), OptimizerConfig()).param_groups
    assert sum(len(group["params"]) for group in groups) == 1


def test_lbfgs_alone_needs_a_closure():
    made = {name: make_optimizer(nn.Linear(2, 1).parameters(), OptimizerConfig(name=name)) for name in
            ("sgd", "adam", "lbfgs")}  # fmt: skip
    assert {name: needs_closure(optimizer) for name, optimizer in made.items()} == {
        "sgd": False, "adam": False, "lbfgs": True}  # fmt: skip
    made["sgd"].needs_closure = True  # an optimiser of somebody else's says so itself
    assert needs_closure(made["sgd"])


def test_lbfgs_solves_a_least_squares_problem():
    x = torch.randn(20, 3, dtype=torch.float64)
    layer = nn.Linear(3, 1, bias=False).double()
    optimizer = make_optimizer(layer.parameters(), OptimizerConfig(name="lbfgs", lr=1.0, iterations=30))

    def objective() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (layer(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        return loss

    optimizer.step(objective)
    torch.testing.assert_close(layer.weight.detach(), torch.ones(1, 3, dtype=torch.float64), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["sgd", "adam", "AdamW"])
def test_several_iterations_in_one_step_are_several_steps(name):
    torch.manual_seed(0)
    x, start = torch.randn(20, 3), nn.Linear(3, 1).state_dict()
    ends = []
    for iterations in (1, 3):
        layer = nn.Linear(3, 1)
        layer.load_state_dict(start)
        config = OptimizerConfig(name=name, lr=0.05, iterations=iterations)
        optimizer = make_optimizer(layer.parameters(), config)
        assert needs_closure(optimizer) == (iterations > 1)

        def objective(layer=layer) -> torch.Tensor:
            layer.zero_grad()
            loss = (layer(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            return loss

        for _ in range(6 // iterations):
            again = make_optimizer(layer.parameters(), config)  # each step goes on from a saved state
            again.load_state_dict(optimizer.state_dict())
            optimizer = again
            if iterations == 1:
                objective()
            optimizer.step(objective) if iterations > 1 else optimizer.step()
        ends.append(layer.weight.detach().clone())
    assert torch.equal(*ends)


EVERYWHERE = sorted(torch_optimizers().keys() - {"Muon"})  # which takes matrices alone


@pytest.mark.parametrize("name", EVERYWHERE)
def test_every_optimiser_of_torch_descends(name):
    torch.manual_seed(0)
    layer, x = nn.Linear(3, 1), torch.randn(20, 3)
    optimizer = make_optimizer(layer.parameters(), OptimizerConfig(name=name, lr=0.01))
    losses = []

    def objective() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (layer(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        losses.append(loss.item())
        return loss

    for _ in range(5):
        optimizer.step(objective)
    assert losses[-1] < losses[0]


def test_options_and_decay_of_torch_optimisers():
    model = nn.Linear(3, 2)
    config = OptimizerConfig(name="AdamW", lr=0.02, weight_decay=0.1, options={"betas": [0.8, 0.9], "amsgrad": True})
    optimizer = make_optimizer(model.parameters(), config)
    assert isinstance(optimizer, torch.optim.AdamW)
    weights, others = optimizer.param_groups
    assert (weights["lr"], weights["weight_decay"]) == (0.02, 0.1)
    assert (weights["betas"], weights["amsgrad"]) == ((0.8, 0.9), True)
    assert others["weight_decay"] == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "adamw"}, "unknown optimiser 'adamw'; similar names are 'AdamW'"),
        ({"name": "AdamW", "options": {"beta": 1}}, "AdamW has no option 'beta'; it has amsgrad, betas"),
        ({"name": "AdamW", "options": {"lr": 1}}, "has no option 'lr'"),
        ({"name": "sgd", "options": {"dampening": 1}}, "sgd has its own keys"),
        ({"name": "SparseAdam"}, "unknown optimiser"),
    ],
)
def test_unknown_optimisers_and_options_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        OptimizerConfig.read(values, "test")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"name": "Rprop", "weight_decay": 0.1}, "Rprop has no weight decay"),
        ({"name": "AdamW", "options": {"betas": [2, 3]}}, "does not take these options: Invalid beta"),
        ({"name": "LBFGS", "iterations": 3}, "LBFGS repeats its own iterations; leave optimizer.iterations out"),
        *[
            ({"name": name, "weight_decay": 0.1}, f"{name} has no weight decay")
            for name in ("lbfgs", "bfgs", "ssbroyden", "gauss-newton")
        ],
        ({"name": "Muon"}, "Muon only supports 2D parameters"),
    ],
)
def test_what_an_optimiser_itself_refuses_is_one_line(config, message):
    with pytest.raises(ConfigError, match=message):
        make_optimizer(nn.Linear(2, 1).parameters(), OptimizerConfig(**config))
