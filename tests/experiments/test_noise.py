"""The kept model is tested under noise, and the figures reach the result."""

import dataclasses
import json

import pytest
import torch

from evolvent import load
from evolvent._core.errors import ConfigError
from evolvent.data import Preprocess, add_noise
from evolvent.data import load as load_images
from evolvent.experiments.evaluation import noise_accuracy
from evolvent.experiments.grid import run_grid
from evolvent.experiments.record import read_result, write_result


def test_figures_are_those_of_the_kept_model_on_noisy_images(tiny, tmp_path):
    [result] = run_grid(tiny(task={"test_noise": [0, 0.3]}, seeds=[3], training={"epochs": 4}), tmp_path).values()
    assert list(result.noise_accuracy) == [0.0, 0.3]
    assert result.noise_accuracy[0.0] == pytest.approx(result.accuracy, abs=1e-6)
    test = load_images("digits").test
    model, preprocess = load(tmp_path / "model"), Preprocess.load(tmp_path / "model")
    noisy = add_noise(test.images, 0.3, torch.arange(len(test)), seed=3)
    with torch.no_grad():
        said = model(preprocess(noisy)).argmax(1)
    assert result.noise_accuracy[0.3] == pytest.approx((said == test.labels).double().mean().item(), abs=2e-3)
    batches = [noise_accuracy(model, preprocess, test, [0.3], 3, size) for size in (500, 77)]
    assert batches[0] == pytest.approx(batches[1], abs=2e-3)


def test_results_are_read_with_and_without_figures_under_noise(tiny, tmp_path):
    [result] = run_grid(tiny(training={"epochs": 1}, data={"fraction": 0.1}), tmp_path).values()
    assert result.noise_accuracy == {}
    path = tmp_path / "result.json"
    values = json.loads(path.read_text())
    del values["noise_accuracy"]
    path.write_text(json.dumps(values))
    assert read_result(path) == result
    write_result(path, dataclasses.replace(result, noise_accuracy={0.05: 0.5}))
    read = read_result(path)
    assert read is not None
    assert read.noise_accuracy == {0.05: 0.5}


def test_segmentation_under_noise_is_refused_when_the_recipe_is_read(tiny):
    with pytest.raises(ConfigError, match=r"task.test_noise: .*classification only; leave it out for segmentation"):
        tiny(task={"name": "segmentation", "test_noise": [0.1]})
    mixed = tiny(task={"test_noise": [0.1]}, variants={"a": {"task": {"name": "segmentation"}}})
    with pytest.raises(ConfigError, match=r"variant 'a'.*classification only"):
        mixed.cells()


@pytest.mark.parametrize("level", [-0.1, 25.5, float("nan")])
def test_levels_are_shares(tiny, level):
    with pytest.raises(ConfigError, match=r"task.test_noise.0"):
        tiny(task={"test_noise": [level]})
