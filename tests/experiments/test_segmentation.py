"""Semantic segmentation from recipe to figures, on a set of tiny made-up street scenes."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from evolvent import load
from evolvent._core.errors import ConfigError
from evolvent.cli.look import evaluate as evaluate_command
from evolvent.data import ImageData, ImageSet
from evolvent.experiments import checkpoints, engine
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe, overlay
from evolvent.experiments.record import read_metrics, read_record
from evolvent.report import summary_csv, summary_rows, write_report

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
    monkeypatch.setattr(engine, "load", lambda name, folder=None: data)
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
        "published": [{"variant": "hamiltonian", "metric": "miou", "value": 64.4, "source": "Table 3"}],
    }
    return Recipe.read(overlay(values, changes), "test")


def test_it_learns_and_carries_its_figures_everywhere(made_up, tmp_path):
    folder = tmp_path / "run"
    [result] = run_grid(recipe(training={"epochs": 12}, seeds=[0]), folder).values()
    assert result.score == "miou"
    assert result.miou is not None
    assert result.miou > 0.6
    assert result.iou is not None
    assert result.miou == pytest.approx(np.mean([share for share in result.iou if share is not None]))
    assert result.top5 is None
    assert json.loads((folder / "result.json").read_text())["miou"] == result.miou
    columns = read_metrics(folder / "metrics.csv")
    assert {"train_loss", "train_accuracy", "val_loss", "val_accuracy", "val_miou"} <= columns.keys()
    assert result.best_epoch == 1 + int(np.argmax(columns["val_miou"]))
    [row] = summary_rows(folder)
    assert row.miou is not None
    assert row.score is row.miou
    assert row.published[0].difference == pytest.approx(result.miou - 0.644)
    assert "miou_median,miou_mean,miou_std,published_miou" in summary_csv(folder)


def test_what_is_left_for_pictures_is_what_the_model_says(made_up, tmp_path):
    run_grid(recipe(), tmp_path)
    record = read_record(tmp_path)
    found = record.evaluation
    assert found is not None
    assert record.result is not None
    assert found.shown_images.shape == (6, 3, 8, 12)
    rows = [0, 1, 3, 4, 6, 7]
    np.testing.assert_array_equal(found.shown_labels, made_up.test.labels[rows])
    assert found.confusion.sum() == (made_up.test.labels != IGNORE).sum()
    model, preprocess = load(tmp_path / "model"), engine.Preprocess.load(tmp_path / "model")
    with torch.no_grad():
        said = model(preprocess(made_up.test.images)).argmax(1)
    np.testing.assert_array_equal(found.shown_predictions, said[rows])
    known = made_up.test.labels != IGNORE
    assert record.result.accuracy == pytest.approx((said == made_up.test.labels)[known].float().mean().item())


def test_the_engine_tells_the_network_what_is_asked(made_up):
    [cell] = recipe().cells()
    assert engine.build_model(cell, made_up)(torch.zeros(2, 3, 8, 12)).shape == (2, 3, 8, 12)
    [classes] = recipe(task={"name": "classification"}).cells()
    assert engine.build_model(classes, made_up)(torch.zeros(2, 3, 8, 12)).shape == (2, 3)


def test_images_are_reduced_before_all_else(made_up, tmp_path):
    run_grid(recipe(data={"reduce": 2}, training={"epochs": 1}), tmp_path)
    found = read_record(tmp_path).evaluation
    assert found is not None
    assert found.shown_labels.shape == (6, 4, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": {"name": "classification", "class_weights": None}}, "is a set for segmentation, got task.name class"),
        ({"model": {"name": "odenet", "options": {}}}, "odenet gives no class per pixel; networks that do are .*hamil"),
        ({"data": {"validation": 0.2}}, "has validation images of its own; leave data.validation at 0"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(made_up, tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        run_grid(recipe(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_whole_labels_are_not_for_segmentation(tiny, tmp_path):
    with pytest.raises(ConfigError, match="digits is a set for classification"):
        run_grid(tiny(task={"name": "segmentation"}), tmp_path / "run")
    with pytest.raises(ConfigError, match="class_weights is for segmentation"):
        run_grid(tiny(task={"class_weights": "log"}), tmp_path / "run")


def test_resumed_it_has_the_weights_of_an_uninterrupted_run(made_up, tmp_path, monkeypatch):
    run_grid(recipe(), tmp_path / "whole")

    def stop(self, trainer, task):
        trainer.save_checkpoint(self.path)
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.LastCheckpoint, "on_train_epoch_end", stop)
        with pytest.raises(RuntimeError, match="power cut"):
            run_grid(recipe(), tmp_path / "cut")
    run_grid(recipe(), tmp_path / "cut", resume=True)
    expected, found = (load(tmp_path / name / "model").state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(expected[key], found[key]) for key in expected)
    one, other = (read_metrics(tmp_path / name / "metrics.csv") for name in ("whole", "cut"))
    for column in set(one) - {"seconds", "images_per_second"}:
        assert one[column] == other[column], column


def test_without_validation_images_the_last_model_is_kept(made_up, tmp_path, monkeypatch):
    bare = dataclasses.replace(made_up, val=None)
    monkeypatch.setattr(engine, "load", lambda name, folder=None: bare)
    [result] = run_grid(recipe(), tmp_path).values()
    assert result.best_epoch == 2
    assert "test_miou" in read_metrics(tmp_path / "metrics.csv")


def test_the_report_shows_masks_beside_labels(made_up, tmp_path):
    two = {"hamiltonian": {}, "nonlocal": {"model": {"options": {"step_size": 0.1}}}}
    run_grid(recipe(variants=two, training={"epochs": 1}), tmp_path)
    page = write_report([tmp_path], tmp_path / "report.html").read_text(encoding="utf-8")
    for anchor in ("masks", "iou", "confusion", "trajectory"):
        assert f'<section id="{anchor}">' in page
    assert '<section id="mistakes">' not in page
    for words in ("Test mIoU: hamiltonian", "mIoU, median", "Pixel accuracy, median", "Published mIoU", "no class"):
        assert words in page
    assert page.count("of pixels right</figcaption>") == 12


def test_the_command_line_tests_a_saved_model_anew(made_up, tmp_path, capsys):
    run_grid(recipe(training={"epochs": 1}), tmp_path)
    evaluate_command(tmp_path)
    shown = capsys.readouterr().out
    assert "mIoU" in shown
    assert "IoU car" in shown
