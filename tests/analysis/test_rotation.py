"""Accuracy over angles: against turning by hand, and for networks whose answer is known at every angle."""

import pytest
import torch
from torch import nn

from evolvent import create_model
from evolvent.analysis import rotation_accuracy
from evolvent.data import Preprocess
from evolvent.errors import ConfigError, ShapeError


class Quadrant(nn.Module):
    """The class of an image is its brightest quadrant: 0 top left, 1 top right, 2 bottom left, 3 bottom right."""

    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x.mean(1, keepdim=True), 2).flatten(1)


def quadrants(side: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.zeros(4, 1, side, side)
    half = side // 2
    for k in range(4):
        row, column = half * (k // 2), half * (k % 2)
        images[k, :, row : row + half, column : column + half] = 1
    return images, torch.arange(4)


def test_a_network_that_knows_places_is_right_only_upright():
    found = rotation_accuracy(Quadrant(), *quadrants(), angles=(0, 90, 180, 270, 360))
    assert found.accuracy == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert (found.angles, found.count) == ([0.0, 90.0, 180.0, 270.0, 360.0], 4)
    assert found.mean == pytest.approx(0.4)


def test_images_turn_counter_clockwise():
    images, _ = quadrants()
    after_a_quarter = torch.tensor([2, 0, 3, 1])  # what was top left is bottom left
    assert rotation_accuracy(Quadrant(), images, after_a_quarter, angles=(90,)).accuracy == [1.0]


def test_an_invariant_network_has_one_accuracy():
    rings = torch.stack([torch.zeros(1, 9, 9), torch.ones(1, 9, 9)]).repeat(3, 1, 1, 1)
    mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 2))
    with torch.no_grad():
        mean[2].weight.copy_(torch.tensor([[-1.0], [1.0]]))
        mean[2].bias.copy_(torch.tensor([0.5, -0.5]))
    assert set(rotation_accuracy(mean, rings, torch.tensor([0, 1] * 3)).accuracy) == {1.0}


def test_quarter_turns_agree_with_rot90_on_more_images_than_fit_at_once():
    torch.manual_seed(0)
    model = create_model("resnet", channels=(4,), blocks=1, in_channels=1).eval()
    images, labels = torch.randn(520, 1, 8, 8), torch.randint(10, (520,))
    found = rotation_accuracy(model, images, labels, (0, 90, 180, 270))
    with torch.no_grad():
        plain = [(model(images.rot90(k, (2, 3))).argmax(1) == labels).double().mean().item() for k in range(4)]
    assert found.accuracy == pytest.approx(plain, abs=1.01 / 520)


def test_the_background_stays_background():
    """Where a mean image is subtracted, images that equal it give zeros at every angle."""
    mean = torch.rand(1, 1, 1).expand(1, 9, 9)
    seen = []
    model = nn.Sequential(Preprocess(mean), nn.Flatten(), nn.Linear(81, 2))
    model[1].register_forward_hook(lambda module, inputs, output: seen.append(output))
    rotation_accuracy(model, 255 * mean.expand(2, 1, 9, 9), torch.tensor([0, 1]), (0, 45, 100), background=255 * mean)
    assert torch.cat(seen).abs().max() < 1e-6


def test_it_tells_how_far_it_is_and_leaves_the_model_as_it_was():
    model, told = nn.Sequential(Quadrant(), nn.Dropout(0.9)).train(), []
    assert rotation_accuracy(model, *quadrants(), angles=(0, 0, 0, 0), tell=told.append).accuracy == [1.0] * 4
    assert told == [0.25, 0.5, 0.75, 1.0]
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize(
    ("images", "labels", "angles", "error"),
    [
        (torch.zeros(2, 8, 8), torch.zeros(2), (0,), ShapeError),
        (torch.zeros(2, 1, 8, 8), torch.zeros(3), (0,), ShapeError),
        (torch.zeros(0, 1, 8, 8), torch.zeros(0), (0,), ShapeError),
        (torch.zeros(2, 1, 8, 8), torch.zeros(2), (), ConfigError),
    ],
)
def test_what_cannot_be_measured_is_refused(images, labels, angles, error):
    with pytest.raises(error, match=r"images|angles"):
        rotation_accuracy(Quadrant(), images, labels, angles)
