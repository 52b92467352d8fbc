"""The recipes for ImageNet train on folders of photographs."""

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.grid import run_grid

SETTINGS = (
    "model.options.width=0.0625",
    "model.options.blocks=1",
    "data.reduce=7",
    "data.batch_size=20",
    "training={steps: 1}",
    "schedule={name: constant}",
)


def write_photographs(folder: Path, classes: int) -> None:
    """One training and one test image of each class, of various sizes."""
    rng = np.random.default_rng(0)
    for part in ("train", "val"):
        for number in range(classes):
            (folder / part / f"n{number:04d}").mkdir(parents=True)
            height, width = rng.integers(24, 60, 2)
            pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / part / f"n{number:04d}" / "image.JPEG")


@pytest.mark.parametrize(
    ("name", "classes", "variant"),
    [
        ("epdo-table3", 100, "resnet26"),
        ("epdo-table3", 100, "ePDO, Gauss, augmented"),
        ("epdo-table4", 1000, "steerable, differences"),
    ],
)
def test_a_step_of_the_recipe(tmp_path, name, classes, variant):
    recipe = load_recipe(name, SETTINGS, seed=0)
    recipe = recipe.model_copy(update={"variants": {variant: recipe.variants[variant]}})
    write_photographs(tmp_path / recipe.data["name"], classes)
    [result] = run_grid(recipe, tmp_path / "runs", data_folder=tmp_path).values()
    assert result.steps == 1
    assert 0 <= result.figures["error"] <= 1
    assert math.isfinite(result.figures["loss"])
