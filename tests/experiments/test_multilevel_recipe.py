"""Recipes that refine the network while it is trained."""

import pytest

from evolvent import evolutions, load
from evolvent.errors import ConfigError
from evolvent.experiments import training
from evolvent.experiments.engine import Resources
from evolvent.experiments.grid import run_grid


@pytest.mark.parametrize("marks", [[2, 2], [3, 1], [4], [0, 1]])
def test_refinements_come_one_after_the_other_before_the_end(tiny, marks):
    with pytest.raises(ConfigError, match="refine_at"):
        tiny(training={"epochs": 4, "refine_at": marks}).cells()


def test_refinements_are_counted_in_epochs(tiny):
    with pytest.raises(ConfigError, match="refine_at counts epochs, so the length must be given in epochs"):
        tiny(training={"steps": 4, "refine_at": [1]}).cells()


def test_a_grid_keeps_the_deepest_network_and_says_its_cost(tiny, tmp_path):
    recipe = tiny(training={"epochs": 3, "refine_at": [1, 2], "clip_norm": 1.0, "gradient": "reversible"})
    [result] = run_grid(recipe, tmp_path / "run").values()
    model = load(tmp_path / "run" / "model")
    assert [(e.steps, e.step_size) for _, e in evolutions(model)] == [(4, 0.05), (4, 0.05)]
    assert result.cost.parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("changes", "resources", "said"),
    [
        ({"model": {"name": "resnet", "options": {"channels": [4, 8], "blocks": 2}}}, Resources(), "cannot be refined"),
        ({}, Resources(devices=2), "refine_at needs one process, got 2"),
    ],
    ids=["family", "processes"],
)
def test_what_cannot_be_refined_is_said_before_training(tiny, tmp_path, changes, resources, said):
    recipe = tiny(training={"epochs": 2, "refine_at": [1]}, **changes)
    with pytest.raises(ConfigError, match=said):
        run_grid(recipe, tmp_path / "run", resources=resources)
    assert not (tmp_path / "run").exists()


def test_a_network_of_several_optimisers_is_not_refined(plane, tmp_path):
    recipe = plane(training={"epochs": 2, "refine_at": [1]}, task={"turns": "alternating"})
    with pytest.raises(ConfigError, match="refine_at needs a task with one optimiser, got 2"):
        run_grid(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_momenta_are_carried_over(tiny, tmp_path, monkeypatch):
    """The first step of a level starts from the momenta of the level before."""
    carried = []

    def carry(old, old_optimizer, new, new_optimizer):
        real(old, old_optimizer, new, new_optimizer)
        carried.append([state["momentum_buffer"].abs().sum().item() for state in new_optimizer.state.values()])

    real = training.carry_state
    monkeypatch.setattr(training, "carry_state", carry)
    run_grid(tiny(training={"epochs": 3, "refine_at": [1, 2]}), tmp_path / "run")
    assert len(carried) == 2
    assert len(carried[1]) > len(carried[0])
    assert all(size > 0 for sizes in carried for size in sizes)
