"""The recipes for ImageNet train on folders of photographs."""

import numpy as np
import pytest
import torch
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


@pytest.fixture
def photographs(tmp_path):
    """A hundred classes, each with one training and one test image of some size."""
    rng = np.random.default_rng(0)
    for part in ("train", "val"):
        for number in range(100):
            folder = tmp_path / "imagenet100" / part / f"n{number:03d}"
            folder.mkdir(parents=True)
            height, width = rng.integers(24, 60, 2)
            pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "image.JPEG")
    return tmp_path


@pytest.mark.parametrize("variant", ["resnet26", "ePDO, Gauss, augmented"])
def test_a_step_of_table_3(photographs, tmp_path, variant):
    recipe = load_recipe("epdo-table3", SETTINGS, seed=0)
    recipe = recipe.model_copy(update={"variants": {variant: recipe.variants[variant]}})
    [result] = run_grid(recipe, tmp_path / "runs", data_folder=photographs).values()
    assert 0 <= result.figures["error"] <= 1
    assert torch.tensor(result.figures["loss"]).isfinite()
