"""The recipes that solve and find equations: a few steps of each variant go through."""

import pytest

from evolvent.experiments import load_recipe
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe, overlay

SMALL = {
    "data": {"points": 40, "samples": 30, "grid": [16, 5], "options": {"diffusion": 0.01}},
    "model": {"options": {"width": 5, "layers": 2}},
    "optimizer": {"iterations": 2},
    "training": {"steps": 3, "epoch_steps": 1},
}


@pytest.mark.parametrize("name", ["prnet-figure8", "prnet-inverse"])
def test_recipes_run(tmp_path, name):
    values = load_recipe(name).model_dump(mode="json")
    for setting in (values, *values["variants"].values()):
        for phase in setting.get("task", {}).get("phases", []):
            phase["steps"], phase["optimizer"]["iterations"] = 1, 2
    values["seeds"] = [0]
    results = run_grid(Recipe.read(overlay(values, SMALL), name), tmp_path / "run")
    assert len(results) == 2
    for result in results.values():
        assert 0 < result.figures["error"] < 10
