"""Every registered task keeps the contract, and the check finds those that do not."""

import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import distributed
from torch.nn import functional as F
from typer.testing import CliRunner

from evolvent.cli import app
from evolvent.data import Batches, Material, Source, TensorSource
from evolvent.errors import ConfigError
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe
from evolvent.tasks import (
    TASKS,
    DataSettings,
    Figure,
    Findings,
    Points,
    Setup,
    Task,
    TaskSettings,
    Turn,
    register_task,
)
from evolvent.testing import check_task

SHORT = {"name": "short", "title": "Short", "question": "Does the task keep its contract?"}
POINTS = {"name": "point_resnet", "options": {"width": 4, "layers": 2}}
IMAGES = {"name": "hamiltonian", "options": {"channels": [4], "blocks": 1, "step_size": 0.2}}
RECIPES: dict[str, dict[str, Any]] = {
    "transport": {
        "model": {"name": "otflow", "options": {"width": 4}},
        "data": {
            "source": "gaussian",
            "target": "gaussians",
            "points": 192,
            "tested": 64,
            "batch_size": 64,
            "eval_batch_size": 64,
        },
        "task": {"name": "transport", "steps": 2, "compared": 20, "shown": 10, "grid": 6},
        "optimizer": {"name": "adam", "lr": 0.01},
        "training": {"steps": 6, "epoch_steps": 3},
    },
    "bsde": {
        "model": {"name": "bsde", "options": {"width": 8}},
        "data": {"problem": "hamilton-jacobi-bellman", "dimension": 3, "steps": 4, "paths": 192, "tested": 64},
        "task": {"name": "bsde"},
        "optimizer": {"name": "adam", "lr": 0.01},
        "training": {"steps": 6, "epoch_steps": 3},
    },
    "classification": {
        "model": IMAGES,
        "data": {"name": "digits", "batch_size": 32, "fraction": 0.1, "validation": 0.2, "augment": {"pad": 1}},
        "task": {"name": "classification", "test_noise": [0.1], "smoothness": 1e-4},
        "training": {"epochs": 2},
    },
    "segmentation": {
        "model": IMAGES,
        "data": {"name": "camvid", "batch_size": 4, "reduce": 8, "augment": {"pad": 1, "flip": True}},
        "task": {"name": "segmentation", "class_weights": "median"},
        "training": {"epochs": 2},
    },
    "pde": {
        "model": {"name": "perceptron", "options": {"width": 5, "layers": 2}},
        "data": {"name": "heat", "points": 24, "samples": 6, "noise": 0.01, "grid": [6, 5], "face_points": 8},
        "task": {
            "name": "pde",
            "phases": [{"steps": 2, "optimizer": {"name": "adam", "lr": 0.01, "iterations": 2}}],
            "resample_at": [1],
            "times": [0.5],
        },
        "optimizer": {"name": "ssbroyden", "iterations": 3},
        "training": {"steps": 6, "epoch_steps": 2, "precision": "64-true"},
    },
    "points": {
        "model": POINTS,
        "data": {"points": 12, "batch_size": 8, "validation": 6},
        "task": {
            "name": "points",
            "head_optimizer": {"name": "adam", "lr": 0.01},
            "head_every": 2,
            "recorded_epochs": 2,
        },
        "training": {"epochs": 3},
    },
    "prnet": {
        "model": {"name": "prnet_mnist", "options": {"width": 8, "groups": 4, "norm": "joint"}},
        "data": {"name": "digits", "batch_size": 32, "fraction": 0.1, "validation": 0.2, "augment": {"pad": 1}},
        "task": {"name": "prnet", "governing": 0.01, "fused": False, "points": {"epochs": 2}, "equation": {"every": 2}},
        "optimizer": {"name": "adam", "lr": 1e-3},
        "training": {"epochs": 2},
    },
    "fewshot": {
        "model": {"name": "diff_resnet_fewshot", "options": {"n_top": 4, "sigma_neighbour": 2, "diffusion_steps": 3}},
        "data": {"features": "features.npz", "episodes": 19, "way": 3, "query": 4, "batch_size": 6},
        "task": {"name": "fewshot", "epochs": 5, "centre": True, "shift": True},
        "optimizer": {"lr": 0.1, "weight_decay": 1e-4},
    },
    "nodes": {
        "model": {"name": "gcn", "options": {"width": 4, "initialisations": 2}},
        "data": {"name": "cora", "train_per_class": 1, "validation_per_class": 1},
        "task": {"name": "nodes"},
        "training": {"epochs": 3},
    },
}

UNSHARED = "two processes: the task draws random numbers while it trains"
OURS = [name for name in TASKS.names() if TASKS.get(name).__module__.startswith("evolvent.")]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory) -> Path:
    """A set of random masks under the name camvid, where every other image has few labels, a graph and features."""
    folder, draw, parts = tmp_path_factory.mktemp("data"), np.random.default_rng(0), {}
    for part, count in (("train", 8), ("val", 3), ("test", 3)):
        coarse = draw.integers(0, 12, (count, 15, 20), dtype=np.uint8)
        coarse[::2, 3:] = 11
        parts[f"y_{part}"] = coarse.repeat(8, 1).repeat(8, 2)
        parts[f"x_{part}"] = draw.integers(0, 256, (count, 120, 160, 3), dtype=np.uint8)
    np.savez(folder / "camvid.npz", **parts)
    features = draw.random((60, 8)) + np.eye(6, 8).repeat(10, 0)
    np.savez(folder / "features.npz", features=features, labels=np.arange(60) // 10, base_mean=features.mean(0))
    _write_ring(folder / "cora.npz")
    return folder


def _write_ring(path: Path) -> None:
    """A ring of nodes under the name cora, each with two words."""
    nodes, every = 42, np.arange(42)
    np.savez(
        path, edges=np.stack([every, (every + 1) % nodes]), x_indptr=2 * np.arange(nodes + 1), y=every % 7,
        x_indices=np.stack([every % 7, 7 + every], axis=1).reshape(-1), x_data=np.ones(2 * nodes, np.float32),
        x_shape=np.array([nodes, 1433]), train_idx=every[:14], val_idx=every[14:28], test_idx=every[28:],
    )  # fmt: skip


def checked(name, folder, scenes, **options) -> list[str]:
    assert name in RECIPES, f"task {name!r} has no small recipe here; add one"
    data_folder = scenes if name in ("segmentation", "fewshot", "nodes") else None
    return check_task({**SHORT, **RECIPES[name]}, folder, data_folder=data_folder, **options)


@pytest.mark.parametrize("name", OURS)
def test_registered_tasks_keep_their_contract(name, tmp_path, scenes):
    """Points by two processes as well; starting them takes longest."""
    shared = name == "points"
    unchecked = checked(name, tmp_path, scenes, shared=shared)
    assert unchecked == ([] if shared else [UNSHARED])


@pytest.mark.slow
@pytest.mark.parametrize("name", OURS)
def test_what_a_task_trained_is_written_as_a_file(name, tmp_path, scenes, monkeypatch):
    values = {**SHORT, **RECIPES[name]}
    training = dict(values.get("training", {}))
    training |= {"epochs": 1} if "epochs" in training else {"steps": 2, "epoch_steps": 2} if training else {}
    run, file = tmp_path / "run", tmp_path / "network.pt2"
    monkeypatch.chdir(tmp_path)
    run_grid(Recipe.read({**values, "training": training}, "short"), run, data_folder=scenes)
    command = ["export", str(run), "--to", "torch-export", "--out", str(file), "--data", str(scenes)]
    if name == "fewshot":  # whose tasks are a training each
        with pytest.raises(ConfigError, match="the task fewshot has no network that can be written to a file"):
            CliRunner().invoke(app, command, catch_exceptions=False)
        return
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "largest difference" in " ".join(done.output.split())
    assert file.is_file()


@pytest.mark.parametrize("name", [name for name in OURS if name not in ("points", "nodes")])
def test_registered_tasks_are_trained_alike_by_two_processes(name, tmp_path, scenes):
    assert checked(name, tmp_path, scenes) == []


class SumSettings(TaskSettings):
    """A good task; the cases below spoil it one at a time."""

    name: Literal["spoilt", "spoilt-twice", "spoilt-source", "spoilt-rows", "spoilt-memory", "spoilt-numpy",
                  "spoilt-score", "spoilt-turns", "spoilt-whole", "spoilt-nan"] = "spoilt"  # fmt: skip


class SumData(DataSettings):
    batch_size: int | None = 8


@register_task("spoilt")
class Sum(Task):
    """Learns the sum of two numbers."""

    Settings, Data = SumSettings, SumData
    figures = (Figure("error", "mean squared error"), Figure("rows", "rows", "count", better=None, shown=True))

    @classmethod
    def read(cls, data, folder):
        return None

    @classmethod
    def source(cls, x, y) -> Source:
        return TensorSource(x, y)

    @classmethod
    def material(cls, found, data, seed):
        x = torch.linspace(-1, 1, 64).view(32, 2)
        y = x.sum(1, keepdim=True)
        train, test = cls.source(x[:24], y[:24]), TensorSource(x[24:], y[24:])
        return Material("sums", train, test, test, options={"num_classes": 1, "in_features": 2})

    def objective(self, batch, turn):
        sums = self.measure(batch)
        return sums["error"] / sums["rows"], sums

    def measure(self, batch):
        x, y = (part.to(next(self.parameters())) for part in batch)
        return {"error": F.mse_loss(self.model(x), y, reduction="sum"), "rows": torch.tensor(len(x))}

    def figures_of(self, sums):
        return {"error": (sums["error"] / sums["rows"]).item(), "rows": sums["rows"].item()}


@register_task("spoilt-twice")
class CountsTwice(Sum):
    """Adds measures of training up over processes, which the engine does as well."""

    def objective(self, batch, turn):
        loss, sums = super().objective(batch, turn)
        sums = {name: value.detach().clone() for name, value in sums.items()}
        if distributed.is_initialized():
            for value in sums.values():
                distributed.all_reduce(value)
        return loss, sums


class Drawn(TensorSource):
    def take(self, rows, seed, epoch):
        x, y = super().take(rows, seed, epoch)
        return x + 0.1 * torch.randn(len(x), 2), y


@register_task("spoilt-source")
class DrawsRows(Sum):
    @classmethod
    def source(cls, x, y):
        return Drawn(x, y)


class Centred(TensorSource):
    def take(self, rows, seed, epoch):
        x, y = super().take(rows, seed, epoch)
        return x - x.mean(0), y


@register_task("spoilt-rows")
class CentresRows(Sum):
    @classmethod
    def source(cls, x, y):
        return Centred(x, y)


@register_task("spoilt-memory")
class Remembers(Sum):
    """Counts its steps in a place that no checkpoint keeps."""

    seen = 0

    def objective(self, batch, turn):
        self.seen += 1
        loss, sums = super().objective(batch, turn)
        return loss * self.seen, sums


@register_task("spoilt-numpy")
class DrawsFromNumpy(Sum):
    def objective(self, batch, turn):
        loss, sums = super().objective(batch, turn)
        return loss * np.random.rand(), sums  # noqa: NPY002


@register_task("spoilt-score")
class ForgetsItsScore(Sum):
    def conclude(self, test):
        return Findings(figures={"rows": 3.0})


@register_task("spoilt-nan")
class Undefined(Sum):
    def conclude(self, test):
        return Findings(figures={"error": float("nan")})


@register_task("spoilt-turns")
class QuarrelsAboutParameters(Sum):
    def turns(self, plan):
        [turn] = super().turns(plan)
        return [turn, Turn(turn.parameters, turn.optimizer, name="second")]


class Whole(TensorSource):
    shareable = False


@register_task("spoilt-whole")
class TakesAll(Sum):
    """Good, but its rows belong together."""

    @classmethod
    def source(cls, x, y):
        return Whole(x, y)


def recipe(name: str, **changes) -> dict[str, Any]:
    return {**SHORT, "model": POINTS, "data": {}, "task": {"name": name}, "training": {"epochs": 3}} | changes


def test_a_good_task_passes_and_what_cannot_be_checked_is_said(tmp_path):
    assert check_task(recipe("spoilt"), tmp_path / "a", shared=False) == [UNSHARED]
    assert check_task(recipe("spoilt-whole"), tmp_path / "b") == ["two processes: a source is not shareable"]
    [odd] = check_task(recipe("spoilt", data={"batch_size": 9}), tmp_path / "c")
    assert "multiple of their number 2, got 9" in odd


def test_networks_with_chance_are_not_compared_over_processes(tmp_path):
    values = {**SHORT, **RECIPES["classification"]}
    values["model"] = {"name": "resnet", "options": {"channels": [4], "blocks": 1}}
    [said] = check_task({**values, "training": {"steps": 3}}, tmp_path)
    assert "BatchNorm2d" in said


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("spoilt-source", "pure: train.take gives something else when called again"),
        ("spoilt-rows", "pure: train.take gives other rows when they are taken one by one"),
        ("spoilt-memory", "resume: an interrupted training has other figures"),
        ("spoilt-numpy", "resume: an interrupted training has other figures"),
        ("spoilt-score", "figures: conclude does not give the score 'error'"),
        ("spoilt-nan", "figures: conclude gives values that are not finite"),
        ("spoilt-turns", "train the same parameter at the same time"),
    ],
)
def test_faults_are_found(name, complaint, tmp_path):
    with pytest.raises((AssertionError, ValueError), match=complaint):
        check_task(recipe(name), tmp_path)


@pytest.mark.slow
def test_rows_that_two_processes_count_twice_are_found(tmp_path):
    with pytest.raises(AssertionError, match="shared: train_rows is 48 with two processes and 24 with one"):
        check_task(recipe("spoilt-twice", training={"epochs": 3}), tmp_path)


@pytest.mark.parametrize(
    ("training", "complaint"),
    [({"budget": "2s"}, "give the recipe epochs or steps"), ({"steps": 2}, "trains for 2 steps; give it at least 3")],
)
def test_recipes_that_are_too_short_or_bound_to_the_clock_are_refused(training, complaint, tmp_path):
    with pytest.raises(AssertionError, match=complaint):
        check_task(recipe("spoilt", training=training), tmp_path)


def test_studies_train_no_task(tmp_path):
    with pytest.raises(AssertionError, match="is the recipe of a study"):
        check_task("multilevel", tmp_path)


def test_a_script_that_checks_its_own_task_again_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "task_to_check", sys)  # as in a process that runs the script for its task
    with pytest.raises(AssertionError, match="__main__"):
        check_task({**SHORT, **RECIPES["points"]}, tmp_path)


def test_batches_are_placed_in_the_precision_of_the_network():
    source = TensorSource(torch.zeros(4, 2), torch.arange(4))
    setup = Setup(Points.Settings(), Points.Data())
    task = Points(torch.nn.Linear(2, 2).double(), Material("zeros", source, source, source), setup)
    x, row = task.placed(next(Batches(source, 4).once()))
    assert (x.dtype, row.dtype) == (torch.float64, torch.int64)
