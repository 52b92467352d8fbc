"""Whole trainings: files, grids, resuming, refusing."""

import csv
import json

import pytest
import torch
import yaml

from evolvent import load
from evolvent._core.errors import ConfigError, DataError, UnknownNameError
from evolvent._core.lock import exclusive
from evolvent.experiments import grid
from evolvent.experiments.engine import DataShelf, build_model
from evolvent.experiments.grid import run_folder, run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.record import cell_folders, is_finished, read_recipe, read_record
from evolvent.experiments.trained import evaluate_run


class Notes(Observer):
    def __init__(self):
        self.heard = []

    def grid_starts(self, cells, origin):
        self.heard.append(("grid", len(cells), origin))

    def network_measured(self, cell, cost, advice):
        self.heard.append(("measured", cell.variant, advice))

    def cell_skipped(self, cell, folder, result):
        self.heard.append(("skipped", cell.label))

    def cell_starts(self, cell, folder, resumed):
        self.heard.append(("starts", cell.label, resumed))

    def cell_progresses(self, cell, progress):
        self.heard.append(("progress", progress))

    def cell_ends(self, cell, folder, result):
        self.heard.append(("ends", cell.label))

    def of(self, kind):
        return [note for note in self.heard if note[0] == kind]


def test_a_step_that_is_too_large_is_told_before_the_training(tiny, tmp_path):
    notes, large = Notes(), {"model": {"options": {"step_size": 1.5}}}
    training = {"epochs": 1, "clip_norm": 0.1}
    run_grid(tiny(training=training, variants={"good": {}, "large": large}), tmp_path / "run", observer=notes)
    order = [note[0] for note in notes.heard if note[0] != "progress"]
    assert order == ["grid", *["measured", "starts", "ends"] * 2]
    [good, large] = [advice for _, _, advice in notes.of("measured")]
    assert good == ""
    assert "step 1.5 of Verlet() lies beyond the largest stable one" in large


def test_a_run_leaves_every_file(tiny, tmp_path):
    notes = Notes()
    recipe = tiny(training={"epochs": 4}, data={"validation": 0.2, "fraction": 0.5})
    results = run_grid(recipe, tmp_path / "run", observer=notes)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names >= {"config.yaml", "recipe.yaml", "metrics.csv", "checkpoints", "model", "environment.json",
                     "findings.json", "findings.npz", "result.json"}  # fmt: skip
    record = read_record(tmp_path / "run")
    assert record.result == results["hamiltonian-seed0"]
    assert record.metrics["epoch"] == [1, 2, 3, 4]
    assert record.metrics["train_loss"][-1] < record.metrics["train_loss"][0]
    assert record.result.best_epoch == 1 + max(range(4), key=record.metrics["val_accuracy"].__getitem__)
    assert record.findings.matrices[0].counts.sum() == 360
    assert len(record.findings.features[0].maps) == 2
    assert record.environment["packages"]["torch"] == torch.__version__
    assert json.loads((tmp_path / "run/environment.json").read_text())["format"] == 1
    assert not list((tmp_path / "run").rglob("*.draft"))
    final = notes.of("progress")[-1][1]
    assert final.epoch_ends
    assert (final.step, final.epoch) == (final.steps, 4)
    assert final.share_done == 1
    assert final.rows_per_second > 0


def test_evaluating_anew_gives_the_stored_figures(tiny, tmp_path):
    result = run_grid(tiny(training={"epochs": 1}), tmp_path / "run")["hamiltonian-seed0"]
    cell, kinds, found = evaluate_run(tmp_path / "run")
    assert found.figures == result.figures
    assert kinds == result.kinds
    assert cell.label == "hamiltonian-seed0"


def test_a_grid_runs_every_variant_and_seed_and_skips_what_is_finished(tiny, tmp_path):
    variants = {"small": {}, "residual": {"model": {"name": "resnet", "options": {"channels": [4], "blocks": 1}}}}
    recipe = tiny(variants=variants, seeds=[0, 1], training={"epochs": 1})
    results = run_grid(recipe, tmp_path / "grid")
    assert set(results) == {"small-seed0", "small-seed1", "residual-seed0", "residual-seed1"}
    assert len(cell_folders(tmp_path / "grid")) == 4
    (tmp_path / "grid/cells/small-seed1/result.json").unlink()
    notes = Notes()
    again = run_grid(recipe, tmp_path / "grid", resume=True, observer=notes)
    assert [label for _, label in notes.of("skipped")] == ["small-seed0", "residual-seed0", "residual-seed1"]
    assert notes.of("starts") == [("starts", "small-seed1", True)]
    assert {k: v.figures for k, v in again.items()} == {k: v.figures for k, v in results.items()}


def test_every_network_is_built_once(tiny, tmp_path, count_networks):
    variants = {"a": {}, "b": {"optimizer": {"lr": 0.01}}}
    run_grid(tiny(variants=variants, seeds=[0, 1], training={"steps": 1}), tmp_path / "grid")
    assert len(count_networks) == 4


def test_seeds_are_added_to_a_finished_run_of_one_cell(tiny, tmp_path):
    training = {"epochs": 1}
    first = run_grid(tiny(training=training), tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run/model").iterdir()}
    notes = Notes()
    more = run_grid(tiny(training=training, seeds=[0, 1]), tmp_path / "run", resume=True, observer=notes)
    assert notes.of("skipped") == [("skipped", "hamiltonian-seed0")]
    assert notes.of("starts") == [("starts", "hamiltonian-seed1", False)]
    assert more["hamiltonian-seed0"] == first["hamiltonian-seed0"]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    recipe = read_recipe(tmp_path / "run")
    assert recipe
    assert recipe.seeds == [0, 1]
    folders = cell_folders(tmp_path / "run")
    assert folders == [tmp_path / "run", tmp_path / "run/cells/hamiltonian-seed1"]
    run_grid(tiny(training=training, seeds=[2]), tmp_path / "run", resume=True)
    assert read_recipe(tmp_path / "run") == recipe.model_copy(update={"seeds": [0, 1, 2]})
    assert [read_record(folder).cell.seed for folder in cell_folders(tmp_path / "run")] == [0, 1, 2]


@pytest.mark.parametrize("name", ["../out", "/etc/evil", "a/b", "..", "C:\\x", "Größe 1"])
def test_names_of_variants_and_recipes_stay_inside_the_folder(tiny, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    recipe = tiny(name=name, variants={name: {}, "other": {}}, training={"steps": 1})
    folder = run_folder(recipe)
    assert folder.parent.parent.name == "runs"
    assert not folder.is_absolute()
    results = run_grid(recipe, folder)
    assert list(results) == [f"{name}-seed0", "other-seed0"]
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    cells = cell_folders(folder)
    assert all(cell.parent == folder / "cells" for cell in cells)
    assert {read_record(cell).cell.label for cell in cells} == set(results)


def test_a_second_run_into_the_same_folder_needs_resume(tiny, tmp_path):
    run_grid(tiny(training={"steps": 1}), tmp_path / "run")
    with pytest.raises(ConfigError, match="--resume"):
        run_grid(tiny(training={"steps": 1}), tmp_path / "run")
    with pytest.raises(ConfigError, match="other settings"):
        run_grid(tiny(training={"steps": 2}), tmp_path / "run", resume=True)


def test_a_run_that_began_and_ended_meanwhile_is_not_taken_over(tiny, tmp_path, monkeypatch):
    prepare, others = grid.prepare, []

    def prepare_slowly(*given):
        monkeypatch.setattr(grid, "prepare", prepare)
        others.append(run_grid(other, tmp_path / "run"))
        return prepare(*given)

    monkeypatch.setattr(grid, "prepare", prepare_slowly)
    other = tiny(optimizer={"name": "adam", "lr": 0.1})
    with pytest.raises(ConfigError, match="holds a run already"):
        run_grid(tiny(), tmp_path / "run")
    assert read_recipe(tmp_path / "run").identity == other.identity

    monkeypatch.setattr(grid, "prepare", prepare_slowly)
    other, notes = tiny(), Notes()
    (tmp_path / "run").rename(tmp_path / "first")
    assert run_grid(tiny(), tmp_path / "run", resume=True, observer=notes) == others[1]
    assert len(notes.of("skipped")) == 1


def test_two_processes_cannot_run_in_one_folder(tiny, tmp_path):
    with exclusive(tmp_path / "run"), pytest.raises(ConfigError, match="another process"):
        run_grid(tiny(), tmp_path / "run")


def one_line(caught) -> str:
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400  # a path of the test's own folder is long
    return message


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"model": {"name": "hamiltonia", "options": {}}}, UnknownNameError, "Did you mean 'hamiltonian'"),
        ({"model": {"options": {"chanels": [4]}}}, UnknownNameError, "Did you mean 'channels'"),
        ({"model": {"options": {"channels": "wide"}}}, ConfigError, "channels"),
        ({"data": {"name": "digts"}}, UnknownNameError, "Did you mean 'digits'"),
        ({"data": {"name": "svhn"}}, DataError, "svhn"),
        ({"data": {"fracton": 0.5}}, UnknownNameError, "Did you mean 'data.fraction'"),
        ({"data": {"batch_size": 5000}}, ConfigError, "do not fill one batch of 5000.*set data.batch_size to at most"),
        ({"task": {"name": "clasification"}}, UnknownNameError, "Did you mean 'classification'"),
        ({"task": {"name": "segmentation"}}, ConfigError, "digits is a set for task.name classification"),
        ({"task": {"class_weights": "log"}}, UnknownNameError, "task.class_weights"),
        ({"task": 3}, ConfigError, "task: input should be a valid dictionary, got 3"),
        ({"training": {"gradient": "backprob"}}, UnknownNameError, "Did you mean 'backprop'"),
        ({"training": {"epochs": 2, "steps": 3}}, ConfigError, "give one of epochs, steps and budget, not epochs and"),
        ({"training": {"budget": 0}}, ConfigError, "training.budget: .*greater than 0"),
        ({"training": {"budget": "0s"}}, ConfigError, "training.budget: .*greater than 0"),
        ({"training": {"budget": "soon"}}, ConfigError, "training.budget: write a time as 90s, 5m or 1.5h, got 'soon'"),
        ({"training": {"budget": "1.2.3m"}}, ConfigError, "write a time as 90s, 5m or 1.5h, got '1.2.3m'"),
        ({"training": {"budget": float("inf")}}, ConfigError, "training.budget: .*finite"),
        ({"training": {"steps": 0}}, ConfigError, "training.steps: .*greater than or equal to 1"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tiny, tmp_path, monkeypatch, changes, error, said):
    monkeypatch.delenv("EVOLVENT_DATA", raising=False)
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(error, match=said) as caught:
        run_grid(tiny(**changes), tmp_path / "run")
    one_line(caught)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"task": {"turns": "overlapping"}}, ConfigError, "'network' and 'head' train the same parameter at the same"),
        ({"task": {"turns": "empty"}}, ConfigError, "turn 'nobody' has no parameters to train. Leave it out"),
        ({"data": {"rows": 0}}, DataError, "there are no points in the train part. Check the data section"),
        ({"data": {"batch_size": 25}}, ConfigError, "24 rows do not fill one batch of 25"),
        ({"data": {"name": "digits"}}, UnknownNameError, "data.name"),
    ],
)
def test_a_task_that_cannot_be_trained_is_refused_before_anything_is_written(plane, tmp_path, changes, error, said):
    with pytest.raises(error, match=said) as caught:
        run_grid(plane(**changes), tmp_path / "run")
    one_line(caught)
    assert not (tmp_path / "run").exists()


def test_a_later_variant_that_cannot_be_trained_is_refused_before_the_first_one_is(tiny, tmp_path):
    recipe = tiny(variants={"good": {}, "bad": {"model": {"options": {"blocks": 0}}}})
    with pytest.raises(ConfigError):
        run_grid(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_same_recipe_gives_the_same_weights_and_another_seed_others(tiny, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run_grid(tiny(seeds=[seed], training={"steps": 3}), tmp_path / name)
    a, b, c = (load(tmp_path / name / "model").state_dict() for name in "abc")
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert not all(torch.equal(a[key], c[key]) for key in a)


def test_metrics_config_and_environment_are_plain_files(tiny, tmp_path):
    run_grid(tiny(training={"epochs": 1}), tmp_path / "run")
    config = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    assert config["optimizer"]["lr"] == 0.05
    assert config["optimizer"]["betas"] == [0.9, 0.999]  # complete: defaults are written out
    [row] = csv.DictReader((tmp_path / "run/metrics.csv").read_text().splitlines())
    figures = json.loads((tmp_path / "run/result.json").read_text())["figures"]
    assert float(row["test_accuracy"]) == figures["accuracy"]


def test_the_folder_changes_with_what_is_said_of_the_setting_alone(tiny):
    base = tiny()
    assert run_folder(base) != run_folder(tiny(optimizer={"lr": 0.01}))
    assert run_folder(base) != run_folder(tiny(variants={"a": {"optimizer": {"lr": 0.01}}}))
    for other in (tiny(question="Why?"), tiny(seeds=[3, 4]), tiny(minutes=2.0)):
        assert run_folder(other) == run_folder(base)
    assert yaml.safe_load(yaml.safe_dump(base.model_dump(mode="json")))["optimizer"] == {"lr": 0.05}  # nothing unsaid


def test_double_precision_trains(tiny, tmp_path):
    run_grid(tiny(training={"epochs": 1, "precision": "64-true"}), tmp_path / "run")
    assert is_finished(tmp_path / "run")
    assert {p.dtype for p in load(tmp_path / "run/model").parameters()} == {torch.float64}


def test_the_order_in_memory_changes_rounding_alone(tiny, tmp_path):
    for order in ("contiguous", "channels_last"):
        training = {"epochs": 1, "precision": "64-true", "memory_format": order}
        run_grid(tiny(training=training), tmp_path / order)
    a, b = (load(tmp_path / order / "model").state_dict() for order in ("contiguous", "channels_last"))
    for key in a:
        torch.testing.assert_close(a[key], b[key])


def test_the_order_in_memory_is_that_of_the_recipe(tiny):
    [cell] = tiny(training={"memory_format": "channels_last"}).cells()
    weights = [p for p in build_model(cell, DataShelf().material(cell)).parameters() if p.ndim == 4]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in weights)
    assert not all(p.is_contiguous() for p in weights)
