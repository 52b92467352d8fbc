"""The task on episodes: figures, findings, what is refused, and features from a trained classifier."""

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from evolvent.cli import app
from evolvent.data import Batches, FeatureSet, read_features, write_features
from evolvent.errors import ConfigError, DataError
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.grid import run_grid
from evolvent.networks import create_model
from evolvent.tasks import FewShot, OptimizerConfig, ScheduleConfig, Setup
from evolvent.tasks.class_ranges import ClassRange
from evolvent.tasks.classification import Classification, ClassificationData
from evolvent.tasks.fewshot import features_of_run


@pytest.fixture
def file(tmp_path):
    draw = np.random.default_rng(0)
    labels = np.arange(240) % 8
    features = 2 * draw.normal(size=(8, 12))[labels] + draw.normal(size=(240, 12))
    np.savez(tmp_path / "features.npz", features=features, labels=labels, base_mean=features.mean(0))
    return tmp_path / "features.npz"


@pytest.fixture
def make(file):
    def make(model="diff_resnet_fewshot", optimizer=None, path=file, data=None, **settings) -> tuple[FewShot, Batches]:
        chosen = FewShot.Data(**{"features": str(path), "episodes": 12, "query": 6, "batch_size": 5} | (data or {}))
        material = FewShot.material(FewShot.read(chosen, None), chosen, 0)
        torch.manual_seed(0)
        network = create_model(model, **material.options, n_top=4, sigma_neighbour=2)
        setup = Setup(
            FewShot.Settings(**{"epochs": 20} | settings),
            chosen,
            optimizer or OptimizerConfig(weight_decay=1e-4),
            ScheduleConfig(name="multistep", milestones=(10,)),
        )
        return FewShot(network, material, setup), Batches(material.test, 5)

    return make


@pytest.mark.parametrize("method", ["prototype", "diffusion", "convection", "external", "internal"])
@pytest.mark.parametrize("dirichlet", [None, 1.0])
def test_every_method_is_far_above_chance(make, method, dirichlet):
    model = "diff_resnet_fewshot" if method == "internal" else "resnet_fewshot"
    task, test = make(model, data={"dirichlet": dirichlet}, method=method, centre=True, shift=dirichlet is None)
    figures = task.conclude(test).figures
    assert figures["accuracy"] is not None
    assert figures["accuracy"] > 0.6


def test_figures_are_mean_and_interval_over_tasks(make):
    task, test = make(method="internal")
    shares = []
    for batch in test.once():
        batch = task.placed(batch)
        said = task.classifier.classify(task.prepared(batch), task.model, task.descent)
        shares += (said == batch.labels[:, batch.support :]).double().mean(1).tolist()
    figures = task.figures_of(task.add_up(test))
    assert figures["accuracy"] == pytest.approx(np.mean(shares))
    assert figures["half_width"] == pytest.approx(1.96 * np.std(shares, ddof=1) / np.sqrt(12))


def test_findings(make):
    task, test = make(picture=True)
    task.totals = task.add_up(test)
    found = task.conclude(test)
    assert found.figures == task.figures_of(task.totals)
    assert found.tables[0].rows[0][0] == "5-way 1-shot, equal classes"
    assert found.tables[0].rows[0][3] == 12
    [(share, at_least)] = found.curves[0].series.values()
    assert at_least[0] == pytest.approx(1.0)
    assert len(share) == 31
    assert np.mean(at_least[1:]) == pytest.approx(found.figures["accuracy"])  # the mean of a count is a sum of tails
    [picture] = found.animations
    assert picture.frames.shape == (2, 35, 2)
    assert picture.captions == ["before diffusion", "after diffusion"]
    assert picture.marked.nonzero()[0].tolist() == list(range(5 * task.setup.data.shot))
    assert np.isfinite(picture.frames).all()


def test_schedule_of_the_recipe_is_followed(make):
    task, _ = make(epochs=12)
    assert task.descent.rates == pytest.approx([0.1] * 10 + [0.01] * 2)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"method": "convection"}, "without diffusion"),
        ({"method": "internal", "model": "resnet_fewshot"}, "that diffuses"),
        ({"optimizer": OptimizerConfig(name="adam")}, "SGD"),
        ({"optimizer": OptimizerConfig(nesterov=True)}, "SGD"),
        ({"data": {"classes": {"first": 0, "count": 3}}}, "has its own"),
    ],
)
def test_settings_at_odds_are_refused(make, arguments, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make(**arguments)


def test_centring_needs_a_mean(make, tmp_path):
    write_features(tmp_path / "bare.npz", FeatureSet(torch.randn(60, 5), torch.arange(60) % 6))
    with pytest.raises(ConfigError, match="base_mean"):
        make(path=tmp_path / "bare.npz", centre=True)


def test_other_networks_are_refused():
    with pytest.raises(ConfigError, match="resnet_fewshot"):
        FewShot.check_model("resnet", ["num_classes"])


def test_recipes_run_through_the_engine(file, tmp_path):
    settings = [f"data.features={file}", "data.episodes=9", "data.query=4", "task.epochs=4", "model.options.n_top=4"]
    recipe = load_recipe("diffresnet-table2-cpu", settings)
    results = run_grid(recipe, tmp_path / "run")
    assert len(results) == 10
    for result in results.values():
        assert result.rows == "tasks"
        assert 0 < result.figures["accuracy"] <= 1


# -- backbones


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    """A classifier of the digits 0 to 4, chosen by episodes of 5 to 7."""
    recipe = load_recipe(
        "diffresnet-backbone-tiny",
        [
            "data={name: digits, batch_size: 50, classes: {first: 0, count: 5}, prototypes: "
            "{classes: {first: 5, count: 3}, episodes: 6, way: 3, shot: 2, query: 5}}",
            "model.options={channels: [4, 8], blocks: 1}",
            "training.epochs=2",
            "training.memory_format=contiguous",
        ],
    )
    folder = tmp_path_factory.mktemp("runs") / "backbone"
    run_grid(recipe, folder)
    return folder


def test_a_backbone_is_trained_on_its_classes_and_chosen_by_others(backbone):
    config = (backbone / "config.yaml").read_text()
    assert "count: 5" in config
    header = (backbone / "metrics.csv").read_text().splitlines()[0]
    assert "val_accuracy" in header


def test_features_of_classes_that_were_never_used(backbone):
    found = features_of_run(backbone)
    assert found.features.shape[1] == 8
    assert len(found.sizes) == 2  # 8 and 9
    assert found.base_mean is not None
    assert found.base_mean.shape == (8,)
    shares: list[float] = []
    others = features_of_run(backbone, ClassRange(first=0, count=4), tell=shares.append)
    assert len(others.sizes) == 4
    assert shares[-1] == 1.0


def test_run_folders_and_their_files_give_the_same_episodes(backbone, tmp_path):
    done = CliRunner().invoke(app, ["features", str(backbone), "--out", str(tmp_path / "f.npz")])
    assert done.exit_code == 0, done.output
    data = {"episodes": 3, "way": 2, "shot": 1, "query": 3}
    batches = []
    for origin in (backbone, tmp_path / "f.npz"):
        chosen = FewShot.Data(features=str(origin), **data)
        material = FewShot.material(FewShot.read(chosen, None), chosen, 0)
        batches.append(material.train.take(torch.arange(3), 0, 0))
    assert torch.equal(batches[0].points, batches[1].points)
    assert read_features(tmp_path / "f.npz").base_mean is not None


def test_what_is_no_backbone_is_refused(backbone, tmp_path, file):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="not the run folder"):
        features_of_run(tmp_path / "empty")
    with pytest.raises(ConfigError, match="10 classes"):
        features_of_run(backbone, ClassRange(first=8, count=5))
    with pytest.raises(DataError, match="neither a file"):
        FewShot.read(FewShot.Data(features=str(tmp_path / "nothing")), None)
    settings = [f"data.features={file}", "data.episodes=4", "data.query=4", "task.epochs=1"]
    run_grid(load_recipe("diffresnet-figure6", [*settings, "task.picture=false", "variants={}"]), tmp_path / "run")
    with pytest.raises(ConfigError, match="not the run of a classifier"):
        features_of_run(tmp_path / "run")


def test_a_backbone_of_all_classes_leaves_none():
    section = ClassificationData(name="digits")
    found = Classification.read(section, None)
    from evolvent.tasks.fewshot.backbone import _novel_classes

    with pytest.raises(ConfigError, match=r"Set data\.classes"):
        _novel_classes(found, section)


def test_two_validations_are_refused():
    with pytest.raises(ConfigError, match="either validation or prototypes"):
        ClassificationData.read(
            {"name": "digits", "validation": 0.1, "prototypes": {"classes": {"count": 3}}}, "a recipe"
        )


def test_features_takes_both_numbers_or_none(backbone, tmp_path):
    done = CliRunner().invoke(app, ["features", str(backbone), "--out", str(tmp_path / "f.npz"), "--first", "3"])
    assert isinstance(done.exception, ConfigError)
