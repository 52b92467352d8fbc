"""Two processes against one with the same batches."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from evolvent import load
from evolvent.errors import ConfigError
from evolvent.experiments.checkpoints import read_checkpoint
from evolvent.experiments.engine import Resources
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe, overlay
from evolvent.experiments.record import read_metrics, read_record
from evolvent.experiments.training import Training

# Runs the recipes of a file one after the other, with each process's loss of every step written down.
SCRIPT = """
import importlib.util, json, os, sys, torch, yaml
from pathlib import Path
torch.set_num_threads(1)
recipes, tasks, out, data = sys.argv[1:]
spec = importlib.util.spec_from_file_location("tasks_of_tests", tasks)
module = importlib.util.module_from_spec(spec)
sys.modules["tasks_of_tests"] = module
spec.loader.exec_module(module)
from evolvent.experiments.engine import Resources
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe
from evolvent.experiments.training import Training

losses, check = [], Training._check_gradient
def listen(self, objective, optimizer):
    losses.append(objective.item())
    check(self, objective, optimizer)
Training._check_gradient = listen
for name, values in yaml.safe_load(Path(recipes).read_text()).items():
    losses.clear()
    recipe = Recipe.read(values, "test")
    run_grid(recipe, Path(out) / name, data_folder=Path(data), resources=Resources(devices=2))
    rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
    path = Path(out) / "losses" / f"{name}.{rank}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(losses))
"""
SHARED: dict[str, Any] = {"name": "shared", "title": "Shared", "question": "Is it the same?"}
IMAGES: dict[str, Any] = {
    **SHARED,
    "model": {"name": "hamiltonian", "options": {"channels": [4, 8], "blocks": 1, "step_size": 0.2}},
    "data": {"name": "digits", "batch_size": 40, "fraction": 0.1},
    "task": {"smoothness": 1e-4},
    "training": {"epochs": 1},
}
PIXELS: dict[str, Any] = {
    **SHARED,
    "model": {"name": "hamiltonian", "options": {"channels": [8], "blocks": 1, "step_size": 0.2}},
    "data": {"name": "camvid", "batch_size": 4, "reduce": 8, "augment": {"pad": 1, "flip": True}},
    "task": {"name": "segmentation", "class_weights": "median"},
    "training": {"epochs": 2, "checkpoint_steps": 1},
}
PLANE: dict[str, Any] = {
    **SHARED,
    "model": {"name": "point_resnet", "options": {"width": 4, "layers": 2}},
    "data": {"batch_size": 8, "validation": 5},
    "task": {"name": "plane"},
    "training": {"epochs": 2, "precision": "64-true"},
}
RECIPES = {
    "images": IMAGES,
    "pixels": PIXELS,
    "grid": overlay(PLANE, {"seeds": [0, 1]}),
    "alternating": overlay(PLANE, {"task": {"turns": "alternating"}, "training": {"clip_norm": 0.5}}),
    "lbfgs": overlay(PLANE, {"task": {"turns": "lbfgs"}}),
    "whole": overlay(PLANE, {"data": {"whole": True, "batch_size": None}, "training": {"epochs": 4}}),
}


@pytest.fixture(scope="module")
def masks(tmp_path_factory) -> Path:
    """Random images with masks, of which every other has few labels: processes have unequally many pixels."""
    folder, draw, parts = tmp_path_factory.mktemp("data"), np.random.default_rng(0), {}
    for part, count in (("train", 8), ("val", 3), ("test", 3)):
        coarse = draw.integers(0, 12, (count, 15, 20), dtype=np.uint8)
        coarse[::2, 3:] = 11
        parts[f"y_{part}"] = coarse.repeat(8, 1).repeat(8, 2)
        parts[f"x_{part}"] = draw.integers(0, 256, (count, 120, 160, 3), dtype=np.uint8)
    np.savez(folder / "camvid.npz", **parts)
    return folder


def run(folder: Path, recipes: dict[str, Any], launcher: list[str], data: Path) -> Path:
    folder.mkdir()
    (folder / "run.py").write_text(SCRIPT)
    (folder / "recipes.yaml").write_text(yaml.safe_dump(recipes))
    tasks = Path(__file__).with_name("conftest.py")
    given = [folder / "recipes.yaml", tasks, folder, data]
    mine = {key: value for key, value in os.environ.items() if not key.startswith(("LOCAL_", "NODE_", "PYTEST"))}
    command = [*launcher, str(folder / "run.py"), *map(str, given)]
    done = subprocess.run(command, env={**mine, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory, masks) -> dict[str, Path]:
    """All recipes by one process and by two, which Lightning starts."""
    folder = tmp_path_factory.mktemp("runs")
    for name, values in RECIPES.items():
        with pytest.MonkeyPatch.context() as patch:
            losses = listen(patch)
            run_grid(Recipe.read(values, "test"), folder / "one" / name, data_folder=masks)
        (folder / "one/losses").mkdir(exist_ok=True)
        (folder / f"one/losses/{name}.0.json").write_text(json.dumps(losses))
    return {"one": folder / "one", "two": run(folder / "two", RECIPES, [sys.executable], masks)}


def listen(patch: pytest.MonkeyPatch) -> list[float]:
    losses, check = [], Training._check_gradient

    def heard(self, objective, optimizer):
        losses.append(objective.item())
        check(self, objective, optimizer)

    patch.setattr(Training, "_check_gradient", heard)
    return losses


def step_losses(folder: Path, name: str) -> list[list[float]]:
    """The loss of each step in each process."""
    return [json.loads(path.read_text()) for path in sorted((folder / "losses").glob(f"{name}.*.json"))]


def assert_equal_runs(one: Path, two: Path, tolerance: float) -> None:
    alone, together = (read_metrics(folder / "metrics.csv") for folder in (one, two))
    assert alone.keys() == together.keys()
    for column in set(alone) - {"seconds", "rows_per_second"}:
        assert together[column] == pytest.approx(alone[column], abs=tolerance), column
    states = [read_checkpoint(folder) for folder in (one, two)]
    for key, weight in states[0]["task"].items():
        torch.testing.assert_close(states[1]["task"][key], weight, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["images", "pixels", "alternating", "lbfgs", "whole"])
def test_two_processes_have_the_weights_and_figures_of_one(runs, name):
    [losses], both = (step_losses(runs[key], name) for key in ("one", "two"))
    assert len(both) == 2
    assert [len(found) for found in both] == [len(losses)] * 2
    mean = [sum(pair) / 2 for pair in zip(*both, strict=True)]
    tolerance = 1e-5 if name in ("images", "pixels") else 1e-9
    assert mean == pytest.approx(losses, abs=tolerance)
    assert_equal_runs(runs["one"] / name, runs["two"] / name, tolerance)


def test_every_cell_of_a_grid_is_shared(runs):
    for seed in (0, 1):
        cell = f"grid/cells/point_resnet-seed{seed}"
        assert_equal_runs(runs["one"] / cell, runs["two"] / cell, 1e-9)


def test_confusion_is_counted_once(runs, masks):
    with np.load(masks / "camvid.npz") as parts:
        labelled = int((parts["y_test"][:, ::8, ::8] != 11).sum())
    for folder in runs.values():
        findings = read_record(folder / "pixels").findings
        assert findings
        assert findings.matrices[0].counts.sum() == labelled


@pytest.mark.slow
def test_processes_may_be_started_by_torchrun(tmp_path, masks, runs):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29611"]
    folder = run(tmp_path / "torchrun", {"images": IMAGES}, torchrun, masks)
    assert_equal_runs(runs["two"] / "images", folder / "images", 0.0)


def test_one_process_goes_on_with_what_two_began(tmp_path, masks, runs):
    shutil.copytree(runs["two"] / "pixels", tmp_path / "run")
    (tmp_path / "run/result.json").unlink()
    [result] = run_grid(Recipe.read(PIXELS, "test"), tmp_path / "run", resume=True, data_folder=masks).values()
    before = read_record(runs["two"] / "pixels").result
    assert before
    assert result.figures == pytest.approx(before.figures)
    assert load(tmp_path / "run/model")


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (overlay(IMAGES, {"data": {"batch_size": 33}}), "multiple of their number 2, got 33"),
        (overlay(PLANE, {"data": {"validation": 1}}), "1 watched rows cannot be shared by 2 processes"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_is_written(tmp_path, plane, recipe, said):
    with pytest.raises(ConfigError, match=said):
        run_grid(Recipe.read(recipe, "test"), tmp_path / "run", resources=Resources(devices=2))
    assert not (tmp_path / "run").exists()
