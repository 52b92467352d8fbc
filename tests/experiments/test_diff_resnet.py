"""Diff-ResNet's figures through the engine: what the recipes say is trained, and diffusion makes the difference."""

import pytest

from evolvent.errors import ConfigError
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.grid import run_grid
from evolvent.experiments.record import read_record
from evolvent.networks import PAPERS

FIGURES = {"diffresnet-figure4": "circle", "diffresnet-figure11": "moon", "diffresnet-figure12": "spiral"}


@pytest.mark.parametrize(("name", "kind"), FIGURES.items())
def test_recipes_have_the_papers_settings(name, kind):
    recipe = load_recipe(name)
    n_top, steps, rate = {"circle": (50, 200, 1.0), "moon": (25, 60, 1.0), "spiral": (25, 900, 0.8)}[kind]
    assert set(recipe.papers) <= set(PAPERS)
    for cell in recipe.cells():
        assert (cell.data.kind, cell.data.points, cell.data.test) == (kind, 500, "same")
        assert cell.data.noise == (0.1 if kind == "spiral" else 0.05)
        if cell.variant == "no diffusion":
            assert cell.model.name == "no_diff_resnet"
            continue
        options = cell.model.options
        assert (options["n_top"], options["sigma"], options["diffusion_steps"]) == (n_top, 0.5, steps)
        if cell.variant == "published steps":
            assert (cell.optimizer.lr, cell.optimizer.momentum, cell.training.steps) == (rate, 0.0, 20)


def test_moons_are_separated_with_diffusion_only(tmp_path):
    recipe = load_recipe("diffresnet-figure11", ["seeds=[0]", "training.steps=100"])
    results = run_grid(recipe, tmp_path)
    assert results["diffusion-seed0"].figures["accuracy"] == 1
    assert results["no diffusion-seed0"].figures["accuracy"] < 0.95
    assert {result.cost.parameters for result in results.values()} == {18}
    findings = read_record(tmp_path / "cells" / "diffusion-seed0").findings
    assert findings is not None
    flow, training = findings.animations
    assert flow.frames.shape == (10, 240, 2)
    assert training.captions[-1] == "epoch 10"


def test_steps_are_refused_by_the_graph_of_the_training_alone(tmp_path):
    def run(folder, *settings):
        options = "model.options={n_top: 25, diffusion_steps: 50, normalisation: symmetric, include_self: false}"
        chosen = ["seeds=[0]", "training.steps=10", "data.points=200", options, *settings]
        recipe = load_recipe("diffresnet-figure11", chosen).model_copy(update={"variants": {"diffusion": {}}})
        return run_grid(recipe, tmp_path / folder)["diffusion-seed0"]

    [result, other] = [run(f"{gamma:g}", f"model.options.gamma={gamma}") for gamma in (0.9, 1.2)]  # stable up to 1.56
    assert result.cost == other.cost
    with pytest.raises(ConfigError, match=r"at most 1\.5"):
        run("refused", "model.options.gamma=1.7")


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_all_points_are_separated_with_diffusion(name, tmp_path):
    recipe = load_recipe(name, ["seeds=[0, 1]"])
    recipe = recipe.model_copy(update={"variants": {"diffusion": {}}})
    assert [result.figures["accuracy"] for result in run_grid(recipe, tmp_path).values()] == [1, 1]
