"""After a divergence: the same run with another learning rate goes on from a checkpoint of before."""

import re
import sys

import pytest
import torch
import yaml

from evolvent import cli
from evolvent._core.errors import NonFiniteError
from evolvent.experiments import training
from evolvent.experiments.branches import branch_off, find_branch, read_parent
from evolvent.experiments.checkpoints import LAST, PREVIOUS, read_checkpoint, read_checkpoint_file
from evolvent.experiments.grid import run_grid
from evolvent.experiments.health import Health
from evolvent.experiments.observer import Observer
from evolvent.experiments.record import is_finished, read_metrics
from evolvent.tasks.nonfinite import check_finite


def diverge(recipe, folder, monkeypatch, kind):
    """Train with an objective that explodes from the third epoch on."""
    real = kind.objective

    def exploding(self, batch, turn):
        loss, sums = real(self, batch, turn)
        exploding.steps += 1
        factor = 1.0 if exploding.steps <= 6 else 1e3 if exploding.steps <= 12 else float("inf")
        return loss * factor, sums

    exploding.steps = 0
    with monkeypatch.context() as patch:
        patch.setattr(kind, "objective", exploding)
        with pytest.raises(NonFiniteError) as caught:
            run_grid(recipe, folder)
    return str(caught.value)


@pytest.fixture
def parent(plane, tmp_path, monkeypatch):
    """A run that has diverged in epoch 5 of 6, after two epochs in which it was fine."""
    monkeypatch.setattr(training, "_WRITE_SECONDS", 0.0)
    monkeypatch.setattr(training, "_WRITE_SHARE", 1e9)
    monkeypatch.chdir(tmp_path)
    recipe = plane(training={"epochs": 6}, optimizer={"lr": 1e-6})
    folder = find_branch(recipe, None).folder
    said = diverge(recipe, folder, monkeypatch, recipe.cells()[0].kind)
    return recipe, folder, said


def test_a_checkpoint_from_before_the_explosion_is_kept(parent):
    _, folder, said = parent
    last, before = (read_checkpoint_file(folder / path) for path in (LAST, PREVIOUS))
    assert (last["step"], last["exploding"]) == (12, True)
    assert (before["step"], before["exploding"]) == (6, False)
    assert "Go on from step 6 with --resume" in said  # as the next test does
    assert len(said) < 300


def test_another_learning_rate_goes_on_in_a_new_folder_that_names_its_parent(parent, plane):
    _, folder, _ = parent
    slower = plane(training={"epochs": 6}, optimizer={"lr": 1e-7})
    branch = find_branch(slower, None)
    assert branch.parent == folder
    assert branch.folder != folder
    run_grid(slower, branch.folder, resume=True, parent=branch.parent)
    assert is_finished(branch.folder)
    assert not is_finished(folder)
    found = read_parent(branch.folder)
    assert found
    assert found["parent"] == str(folder.absolute())
    assert found["step"] == 6
    assert (found["before"], found["now"]) == ({"optimizer.lr": 1e-6}, {"optimizer.lr": 1e-7})
    assert read_metrics(branch.folder / "metrics.csv")["lr"] == pytest.approx([1e-6] * 2 + [1e-7] * 4)
    assert find_branch(slower, None).parent is None  # it is a run of its own now


def test_with_a_folder_given_the_new_one_lies_beside_it(parent, plane):
    _, folder, _ = parent
    slower = plane(training={"epochs": 6}, optimizer={"lr": 1e-7})
    branch = find_branch(slower, folder)
    assert branch.folder == folder.with_name(f"{folder.name}-{slower.identity}")
    assert branch.parent == folder


@pytest.mark.parametrize(
    "changes", [{"data": {"rows": 40}}, {"optimizer": {"name": "adam"}}, {"task": {"enough": 1.0}}]
)
def test_another_experiment_is_no_branch(parent, plane, changes):
    other = plane(training={"epochs": 6}, **changes)
    assert find_branch(other, None).parent is None


def test_a_run_that_did_not_diverge_is_nobodys_parent(plane, tmp_path, monkeypatch):
    """Else the learning rates of a sweep that is started with --resume would go on from each other."""
    monkeypatch.chdir(tmp_path)
    recipe = plane()
    run_grid(recipe, find_branch(recipe, None).folder)
    assert find_branch(plane(optimizer={"lr": 0.01}), None).parent is None


def test_the_command_line_branches(tmp_path, monkeypatch, capsys):
    values = {
        "title": "Points", "question": "?", "task": {"name": "points"}, "model": {"name": "point_resnet"},
        "data": {"points": 40, "batch_size": 20}, "training": {"epochs": 4, "checkpoint_steps": 1},
        "optimizer": {"lr": 0.01, "weight_decay": 0.001},
        "schedule": {"name": "multistep", "milestones": [1], "gamma": 1e32},
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.yaml").write_text(yaml.safe_dump(values))
    monkeypatch.setattr(sys, "argv", ["evolvent", "run", "points.yaml"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert "training stopped at step" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["evolvent", "run", "points.yaml", "--resume", "--set", "schedule.gamma=0.1"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    said = capsys.readouterr().out
    assert not caught.value.code
    assert re.search(r"goes on from step [4-9] of runs/points/", said)


def test_an_objective_explodes_when_it_is_far_above_its_beginning():
    health = Health()
    health.add(torch.tensor(2.0))
    assert health.state() == {"first_objective": 2.0, "exploding": False}
    health.add(torch.tensor(7.0))
    assert health.state()["exploding"]
    assert health.exploding
    health.add(torch.tensor(1.0))
    assert not health.state()["exploding"]
    assert not health.state()["exploding"]  # nothing was added


def test_the_layer_is_named_when_only_the_norm_overflows():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1e30)
    model[0].weight.grad = torch.full_like(model[0].weight, 2e30)
    with pytest.raises(
        NonFiniteError, match=r"norm of the gradients is not finite, that of '0.weight' being"
    ) as caught:
        check_finite(model, torch.tensor(1.0), 3, torch.tensor(float("inf")))
    assert "There is no checkpoint yet" in str(caught.value)


def test_without_a_checkpoint_none_is_promised_and_the_next_run_says_that_it_starts_from_zero(
    tiny, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    diverging = tiny(optimizer={"lr": 1e30}, schedule={"name": "constant", "warmup": 0.0})
    folder = find_branch(diverging, None).folder
    with pytest.raises(NonFiniteError, match="There is no checkpoint yet"):
        run_grid(diverging, folder)
    assert read_checkpoint(folder) is None
    slower = tiny(schedule={"name": "constant", "warmup": 0.0})
    branch, told = find_branch(slower, None), []
    observer = Observer()
    monkeypatch.setattr(observer, "cell_branches", lambda cell, text: told.append(text), raising=True)
    run_grid(slower, branch.folder, resume=True, parent=branch.parent, observer=observer)
    assert told == [f"starts from step 0, since {folder} has no checkpoint"]
    found = read_parent(branch.folder)
    assert found
    assert (found["parent"], found["step"]) == (str(folder.absolute()), 0)


def test_a_cell_that_is_finished_in_the_parent_says_that_it_starts_from_zero(plane, tmp_path):
    run_grid(plane(), tmp_path / "run")
    slower = plane(optimizer={"lr": 1e-7})
    branch = find_branch(slower, tmp_path / "run")
    [cell] = slower.cells()
    assert branch.parent
    said = branch_off(cell, branch.folder, branch.parent)
    assert said == f"starts from step 0, since it is finished in {branch.parent}"
    assert read_parent(branch.folder) is None
