"""Whole trainings: files, grids, resuming, refusing."""

import csv
import json
from dataclasses import asdict

import pytest
import torch
import yaml

from evolvent import load
from evolvent._core.errors import ConfigError, DataError, UnknownNameError
from evolvent._core.lock import exclusive
from evolvent.data import load as load_data
from evolvent.experiments.engine import build_model, evaluate_run
from evolvent.experiments.grid import run_folder, run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.record import cell_folders, is_finished, read_record


class Notes(Observer):
    def __init__(self):
        self.heard = []

    def grid_starts(self, cells, costs, source):
        self.heard.append(("grid", len(cells), sorted(costs)))

    def network_advised(self, variant, advice):
        self.heard.append(("advised", variant, advice))

    def cell_skipped(self, cell, folder, result):
        self.heard.append(("skipped", cell.label))

    def cell_starts(self, cell, folder, resumed):
        self.heard.append(("starts", cell.label, resumed))

    def cell_progresses(self, cell, progress):
        self.heard.append(("progress", progress))

    def cell_ends(self, cell, folder, result):
        self.heard.append(("ends", cell.label))


def test_a_step_that_is_too_large_is_told_before_the_training(tiny, tmp_path):
    notes, large = Notes(), {"model": {"options": {"step_size": 1.5}}}
    training = {"epochs": 1, "clip_norm": 0.1}
    recipe = tiny(training=training, data={"fraction": 0.1}, variants={"good": {}, "large": large})
    run_grid(recipe, tmp_path / "run", observer=notes)
    assert [note[0] for note in notes.heard if note[0] != "progress"][:3] == ["grid", "advised", "starts"]
    [(_, variant, advice)] = [note for note in notes.heard if note[0] == "advised"]
    assert variant == "large"
    assert "step 1.5 of Verlet() lies beyond the largest stable one" in advice


def test_a_run_leaves_every_file(tiny, tmp_path):
    notes = Notes()
    results = run_grid(tiny(training={"epochs": 6}, data={"validation": 0.2}), tmp_path / "run", observer=notes)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names >= {"config.yaml", "recipe.yaml", "metrics.csv", "checkpoints", "model", "environment.json",
                     "evaluation.npz", "result.json"}  # fmt: skip
    record = read_record(tmp_path / "run")
    assert asdict(record.result) == asdict(results["hamiltonian-seed0"])
    assert record.metrics["epoch"] == [1, 2, 3, 4, 5, 6]
    assert record.metrics["train_loss"][-1] < record.metrics["train_loss"][0]
    assert record.result.best_epoch == 1 + max(range(6), key=record.metrics["val_accuracy"].__getitem__)
    assert record.result.accuracy > 0.2  # ten classes
    assert record.evaluation.confusion.sum() == 360
    assert len(record.evaluation.features) == 2
    assert record.environment["packages"]["torch"] == torch.__version__
    assert not list((tmp_path / "run").rglob("*.draft"))
    final = [p for kind, p in (n for n in notes.heard if n[0] == "progress")][-1]
    assert final.epoch_ends
    assert (final.step, final.epoch) == (final.steps, 6)
    assert final.images_per_second > 0


def test_evaluating_anew_gives_the_stored_figures(tiny, tmp_path):
    result = run_grid(tiny(), tmp_path / "run")["hamiltonian-seed0"]
    _, classes, figures = evaluate_run(tmp_path / "run")
    assert figures == {name: getattr(result, name) for name in figures}
    assert classes == result.classes


def test_a_grid_runs_every_variant_and_seed_and_skips_what_is_finished(tiny, tmp_path):
    variants = {"small": {}, "residual": {"model": {"name": "resnet", "options": {"channels": [4], "blocks": 1}}}}
    recipe = tiny(variants=variants, seeds=[0, 1], training={"epochs": 1})
    results = run_grid(recipe, tmp_path / "grid")
    assert set(results) == {"small-seed0", "small-seed1", "residual-seed0", "residual-seed1"}
    assert len(cell_folders(tmp_path / "grid")) == 4
    (tmp_path / "grid/cells/small-seed1/result.json").unlink()
    notes = Notes()
    again = run_grid(recipe, tmp_path / "grid", resume=True, observer=notes)
    assert [n for n in notes.heard if n[0] == "skipped"] == [
        ("skipped", "small-seed0"), ("skipped", "residual-seed0"), ("skipped", "residual-seed1")]  # fmt: skip
    assert ("starts", "small-seed1", True) in notes.heard
    assert {k: v.accuracy for k, v in again.items()} == {k: v.accuracy for k, v in results.items()}


def test_a_second_run_into_the_same_folder_needs_resume(tiny, tmp_path):
    run_grid(tiny(training={"epochs": 1}), tmp_path / "run")
    with pytest.raises(ConfigError, match="--resume"):
        run_grid(tiny(training={"epochs": 1}), tmp_path / "run")


def test_resume_does_not_mix_runs_with_other_settings(tiny, tmp_path):
    run_grid(tiny(training={"epochs": 1}), tmp_path / "run")
    with pytest.raises(ConfigError, match="other settings"):
        run_grid(tiny(training={"epochs": 2}), tmp_path / "run", resume=True)


def test_two_processes_cannot_run_in_one_folder(tiny, tmp_path):
    with exclusive(tmp_path / "run"), pytest.raises(ConfigError, match="another process"):
        run_grid(tiny(), tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"model": {"name": "hamiltonia", "options": {}}}, UnknownNameError),
        ({"model": {"options": {"chanels": [4]}}}, UnknownNameError),
        ({"model": {"options": {"channels": "wide"}}}, ConfigError),
        ({"data": {"name": "digts"}}, UnknownNameError),
        ({"data": {"name": "svhn"}}, DataError),
        ({"training": {"gradient": "backprob"}}, UnknownNameError),
        ({"data": {"batch_size": 5000}}, ConfigError),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tiny, tmp_path, monkeypatch, changes, error):
    monkeypatch.delenv("EVOLVENT_DATA", raising=False)
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(error):
        run_grid(tiny(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_same_recipe_gives_the_same_weights_and_another_seed_others(tiny, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run_grid(tiny(seeds=[seed], training={"epochs": 1}), tmp_path / name)
    a, b, c = (load(tmp_path / name / "model").state_dict() for name in "abc")
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert not all(torch.equal(a[key], c[key]) for key in a)


def test_metrics_config_and_environment_are_plain_files(tiny, tmp_path):
    run_grid(tiny(training={"epochs": 1}), tmp_path / "run")
    config = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    assert config["optimizer"]["lr"] == 0.05
    assert config["optimizer"]["betas"] == [0.9, 0.999]  # complete: defaults are written out
    [row] = csv.DictReader((tmp_path / "run/metrics.csv").read_text().splitlines())
    assert float(row["test_accuracy"]) == json.loads((tmp_path / "run/result.json").read_text())["accuracy"]


def test_the_folder_changes_with_every_setting_that_matters(tiny):
    base, other, words = tiny(), tiny(optimizer={"lr": 0.01}), tiny(question="Why?")
    assert run_folder(base) == run_folder(words) != run_folder(other)


def test_double_precision_trains(tiny, tmp_path):
    run_grid(tiny(training={"epochs": 1, "precision": "64-true"}), tmp_path / "run")
    assert is_finished(tmp_path / "run")


def test_the_order_in_memory_changes_rounding_alone(tiny, tmp_path):
    for order in ("contiguous", "channels_last"):
        training = {"epochs": 1, "precision": "64-true", "memory_format": order}
        run_grid(tiny(training=training), tmp_path / order)
    a, b = (load(tmp_path / order / "model").state_dict() for order in ("contiguous", "channels_last"))
    for key in a:
        torch.testing.assert_close(a[key], b[key])


def test_the_order_in_memory_is_that_of_the_recipe(tiny):
    cell = tiny(training={"memory_format": "channels_last"}).cells()[0]
    weights = [p for p in build_model(cell, load_data("digits")).parameters() if p.ndim == 4]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in weights)
    assert not all(p.is_contiguous() for p in weights)
