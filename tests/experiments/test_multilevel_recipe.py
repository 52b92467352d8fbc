"""Recipes that refine the network while it is trained."""

import pytest

from evolvent import evolutions, load
from evolvent.errors import ConfigError
from evolvent.experiments import checkpoints
from evolvent.experiments.engine import Resources
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import TrainingConfig


def test_levels_are_the_epochs_between_refinements():
    assert TrainingConfig(epochs=8).level_epochs == (8,)
    assert TrainingConfig(epochs=8, refine_at=[2, 4]).level_epochs == (2, 2, 4)


@pytest.mark.parametrize("marks", [[2, 2], [3, 1], [4], [0, 1]])
def test_refinements_come_one_after_the_other_before_the_end(tiny, marks):
    with pytest.raises(ConfigError, match="refine_at"):
        tiny(training={"epochs": 4, "refine_at": marks})


def test_a_grid_keeps_the_deepest_network_and_says_its_cost(tiny, tmp_path):
    recipe = tiny(training={"epochs": 3, "refine_at": [1, 2], "clip_norm": 1.0, "gradient": "reversible"})
    [result] = run_grid(recipe, tmp_path / "run").values()
    model = load(tmp_path / "run" / "model")
    assert [(e.steps, e.step_size) for _, e in evolutions(model)] == [(4, 0.05), (4, 0.05)]
    assert result.cost.parameters == sum(p.numel() for p in model.parameters())


def test_killed_inside_an_epoch_of_a_finer_level_it_goes_on_there(tiny, tmp_path, monkeypatch):
    recipe = tiny(training={"epochs": 2, "refine_at": [1], "checkpoint_steps": 4})
    run_grid(recipe, tmp_path / "whole")

    def stop(self, trainer, task, outputs, batch, batch_idx):
        if trainer.current_epoch == 1 and batch_idx == 3:
            trainer.save_checkpoint(self.path)
            raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.LastCheckpoint, "on_train_batch_end", stop)
        with pytest.raises(RuntimeError, match="power cut"):
            run_grid(recipe, tmp_path / "cut")
    run_grid(recipe, tmp_path / "cut", resume=True)
    expected, found = (load(tmp_path / name / "model").state_dict() for name in ("whole", "cut"))
    assert all(expected[key].equal(found[key]) for key in expected)


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
