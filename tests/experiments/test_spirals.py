"""The task on points through the engine: the recipe, two optimisers in turns, and what is kept of a run."""

import pytest

from evolvent.analysis import measure_stability
from evolvent.errors import ConfigError
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.engine import DataShelf
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.record import read_record
from evolvent.networks import PAPERS, load

SMALL = ["data.points=60", "data.turns=0.75", "training.steps=80", "training.epoch_steps=20", "task.shown=20",
         "task.grid=5", "seeds=[0]"]  # fmt: skip


def one_variant(*settings: str):
    recipe = load_recipe("spirals", [*SMALL, "model.options={layers: 6, step_size: 0.5}", *settings])
    return recipe.model_copy(update={"variants": {"one": {}}})


def test_the_variants_have_about_equally_many_parameters_and_the_same_end_time(tmp_path):
    recipe = load_recipe("spirals", ["data.points=20", "training.steps=2", "training.epoch_steps=1", "seeds=[0]"])
    results = run_grid(recipe, tmp_path)
    counts = [result.cost.parameters for result in results.values()]
    assert max(counts) < 1.01 * min(counts)
    for cell in recipe.cells():
        options = cell.model.options
        assert options["layers"] * options["step_size"] == pytest.approx(4)
    assert set(recipe.papers) <= set(PAPERS)
    findings = read_record(tmp_path / "cells" / "residual-seed0").findings
    assert findings is not None
    assert findings.animations[0].frames.shape == (17, 40, 2)


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["data.batch_size=30", "data.validation=20"],
        ["training.precision=64-true"],
        ["task.head_optimizer={name: lbfgs, lr: 1.0}", "task.head_every=5"],
        ["optimizer={name: lbfgs, lr: 1.0, iterations: 5}", "schedule={}", "training.steps=40"],
    ],
    ids=["adam", "batches", "float64", "head", "lbfgs"],
)
def test_spirals_are_learnt(tmp_path, settings):
    [result] = run_grid(one_variant(*settings), tmp_path).values()
    assert result.rows == "points"
    assert result.score.name == "accuracy"
    assert result.figures["accuracy"] > 0.85
    metrics = read_record(tmp_path).metrics
    assert metrics["train_loss"][-1] < metrics["train_loss"][0]
    assert ("lr_head" in metrics) == any("head" in setting for setting in settings)


def test_an_interrupted_training_in_turns_ends_as_an_uninterrupted_one(tmp_path):
    settings = ["task.head_optimizer={name: lbfgs, lr: 1.0, iterations: 5}", "task.head_every=3"]
    recipe = one_variant(*settings, "training.checkpoint_steps=7")
    [whole] = run_grid(recipe, tmp_path / "whole").values()

    class Stop(Exception):
        pass

    class Stopper(Observer):
        def cell_progresses(self, cell, progress):
            if progress.step > 30:
                raise Stop

    with pytest.raises(Stop):
        run_grid(recipe, tmp_path / "cut", observer=Stopper())
    [resumed] = run_grid(recipe, tmp_path / "cut", resume=True).values()
    assert resumed.figures == whole.figures


def test_stability_of_the_trained_flow_can_be_measured(tmp_path):
    recipe = one_variant()
    run_grid(recipe, tmp_path)
    material = DataShelf().material(recipe.cells()[0])
    [found] = measure_stability(load(tmp_path / "model"), material.example)
    assert found.growth.worst[-1] >= found.growth.random[-1] > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["data.kind=helix"], "kind"),
        (["data.points=0"], "points"),
        (["task.head_evry=2"], "Did you mean 'task.head_every'"),
        (["model.name=resnet44"], "does not take points"),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_line(settings, message, tmp_path):
    with pytest.raises((ConfigError, KeyError)) as caught:
        run_grid(load_recipe("spirals", settings), tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
