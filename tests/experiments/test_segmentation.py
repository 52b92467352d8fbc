"""Semantic segmentation from recipe to figures, on a set of tiny made-up street scenes."""

import dataclasses

import numpy as np
import pytest
import torch

from evolvent import load
from evolvent._core.errors import ConfigError
from evolvent.data import ImageData, ImageSet, Preprocess
from evolvent.experiments.engine import DataShelf, build_model
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe, overlay
from evolvent.experiments.record import read_metrics, read_record
from evolvent.tasks import images as image_tasks

CLASSES, IGNORE = ("sky", "road", "car"), 7


def scenes(count: int, seed: int) -> ImageSet:
    """Bright above a horizon, dark below, with a red car; the first row and column have no class."""
    draw = np.random.default_rng(seed)
    images, labels = np.zeros((count, 3, 8, 12), np.uint8), np.zeros((count, 8, 12), np.uint8)
    for image, mask in zip(images, labels, strict=True):
        horizon, place = draw.integers(3, 6), draw.integers(1, 9)
        mask[horizon:], image[:, :horizon], image[:, horizon:] = 1, 200, 60
        mask[horizon : horizon + 2, place : place + 3] = 2
        image[0][mask == 2] = 255
        mask[0], mask[:, 0] = IGNORE, IGNORE
    noisy = np.clip(images + draw.normal(0, 10, images.shape), 0, 255).astype(np.uint8)
    return ImageSet(torch.from_numpy(noisy), torch.from_numpy(labels), CLASSES, IGNORE)


@pytest.fixture
def made_up(monkeypatch) -> ImageData:
    """The set that every name leads to."""
    data = ImageData("scenes", scenes(24, 0), scenes(8, 2), "made up", scenes(8, 1))
    monkeypatch.setattr(image_tasks, "load", lambda name, folder=None: data)
    return data


def recipe(**changes) -> Recipe:
    values = {
        "name": "scenes",
        "title": "Scenes",
        "question": "Does it see?",
        "model": {"name": "hamiltonian", "options": {"channels": [4, 8], "blocks": 1, "step_size": 0.2, "bias": True}},
        "data": {"name": "camvid", "batch_size": 8, "augment": {"pad": 1, "flip": True}},
        "task": {"name": "segmentation", "class_weights": "root", "smoothness": 1e-4},
        "optimizer": {"name": "adam", "lr": 0.02},
        "training": {"epochs": 2},
    }
    return Recipe.read(overlay(values, changes), "test")


def test_it_learns_and_carries_its_figures_everywhere(made_up, tmp_path):
    folder = tmp_path / "run"
    [result] = run_grid(recipe(training={"epochs": 12}, seeds=[0]), folder).values()
    assert result.score.name == "miou"
    assert result.figures["miou"] is not None
    assert result.figures["miou"] > 0.6
    record = read_record(folder)
    assert record.result == result
    assert record.findings
    [per_class] = record.findings.tables
    iou = [row[1] for row in per_class.rows if row[1] is not None]
    assert [row[0] for row in per_class.rows] == list(CLASSES)
    assert result.figures["miou"] == pytest.approx(np.mean(iou))
    columns = read_metrics(folder / "metrics.csv")
    assert {"train_loss", "train_accuracy", "val_loss", "val_accuracy", "val_miou"} <= columns.keys()
    assert result.best_epoch == 1 + int(np.argmax(columns["val_miou"]))


def test_what_is_left_for_pictures_is_what_the_model_says(made_up, tmp_path):
    [result] = run_grid(recipe(), tmp_path).values()
    found = read_record(tmp_path).findings
    assert found
    [maps], [confusion] = found.label_maps, found.matrices
    assert maps.images.shape == (6, 3, 8, 12)
    rows = [0, 1, 3, 4, 6, 7]
    np.testing.assert_array_equal(maps.labels, made_up.test.labels[rows])
    assert confusion.counts.sum() == (made_up.test.labels != IGNORE).sum()
    model, preprocess = load(tmp_path / "model"), Preprocess.load(tmp_path / "model")
    with torch.no_grad():
        said = model(preprocess(made_up.test.images)).argmax(1)
    np.testing.assert_array_equal(maps.predictions, said[rows])
    known = made_up.test.labels != IGNORE
    assert result.figures["accuracy"] == pytest.approx((said == made_up.test.labels)[known].float().mean().item())


def test_the_engine_tells_the_network_what_is_asked(made_up):
    [cell] = recipe().cells()
    assert build_model(cell, DataShelf().material(cell))(torch.zeros(2, 3, 8, 12)).shape == (2, 3, 8, 12)


def test_images_are_reduced_before_all_else(made_up, tmp_path):
    run_grid(recipe(data={"reduce": 2}, training={"epochs": 1}), tmp_path)
    found = read_record(tmp_path).findings
    assert found
    assert found.label_maps[0].labels.shape == (6, 4, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": {"name": "classification"}}, "camvid is a set for task.name segmentation. Change task.name, or"),
        ({"model": {"name": "odenet", "options": {}}}, "odenet does not give a class per pixel; networks .*hamil"),
        ({"model": {"options": {"coarsen": 5}}}, "coarsen=5 needs .* multiples of 5, got 8 x 12. Change the option"),
        ({"data": {"validation": 0.2}}, "has validation images of its own; leave data.validation at 0"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(made_up, tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        run_grid(recipe(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_resumed_it_has_the_weights_of_an_uninterrupted_run(made_up, tmp_path, power_cut, assert_same_run):
    run_grid(recipe(), tmp_path / "whole")
    with power_cut().expected:
        run_grid(recipe(), tmp_path / "cut", observer=power_cut(step=5))
    run_grid(recipe(), tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_without_validation_images_the_last_model_is_kept(made_up, tmp_path, monkeypatch):
    bare = dataclasses.replace(made_up, val=None)
    monkeypatch.setattr(image_tasks, "load", lambda name, folder=None: bare)
    [result] = run_grid(recipe(), tmp_path).values()
    assert result.best_epoch == 2
    assert "test_miou" in read_metrics(tmp_path / "metrics.csv")
