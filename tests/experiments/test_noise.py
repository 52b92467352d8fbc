"""The kept model is tested under noise, and the figures reach the findings."""

import pytest
import torch

from evolvent import load
from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent.data import Preprocess, add_noise
from evolvent.data import load as load_images
from evolvent.experiments.grid import run_grid
from evolvent.experiments.record import read_record
from evolvent.experiments.trained import evaluate_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("noise") / "run"


def test_figures_are_those_of_the_kept_model_on_noisy_images(tiny, folder):
    [result] = run_grid(tiny(task={"test_noise": [0.3, 0]}, seeds=[3], training={"epochs": 4}), folder).values()
    findings = read_record(folder).findings
    assert findings
    [curve] = findings.curves
    levels, accuracies = curve.series["accuracy"]
    assert levels == [0, 0.3]
    assert accuracies[0] == pytest.approx(result.figures["accuracy"], abs=1e-6)
    test = load_images("digits").test
    model, preprocess = load(folder / "model"), Preprocess.load(folder / "model")
    noisy = add_noise(test.images, 0.3, torch.arange(len(test)), seed=3)
    with torch.no_grad():
        said = model(preprocess(noisy)).argmax(1)
    assert accuracies[1] == pytest.approx((said == test.labels).double().mean().item(), abs=2e-3)


def test_testing_anew_sees_the_same_noise(folder):
    _, _, found = evaluate_run(folder)
    stored = read_record(folder).findings
    assert stored
    assert found.curves == stored.curves


def test_without_levels_nothing_is_tested_under_noise(tiny, tmp_path):
    run_grid(tiny(training={"epochs": 1}), tmp_path)
    findings = read_record(tmp_path).findings
    assert findings
    assert findings.curves == []


def test_noise_is_not_for_segmentation(tiny):
    with pytest.raises(UnknownNameError, match=r"task.test_noise"):
        tiny(task={"name": "segmentation", "test_noise": [0.1]}).cells()


@pytest.mark.parametrize("level", [-0.1, 25.5, float("nan")])
def test_levels_are_shares(tiny, level):
    with pytest.raises(ConfigError, match=r"task.test_noise.0"):
        tiny(task={"test_noise": [level]}).cells()
