"""Inversion: invertible layers give the image back, layers that forget do not, regularisers are what they say."""

import pytest
import torch
from torch import nn

from evolvent import create_model
from evolvent.analysis import invert
from evolvent.analysis.inversion import _bounded, _variation
from evolvent.errors import ConfigError, ShapeError, UnknownNameError


@pytest.fixture
def images() -> torch.Tensor:
    """Two smooth images."""
    grid = torch.linspace(0, 3, 10)
    return 0.5 + 0.35 * torch.stack([torch.sin(grid)[:, None] * torch.cos(k * grid) for k in (1, 2)])[:, None]


def test_an_invertible_layer_gives_the_image_back(images):
    class Twice(nn.Module):
        def forward(self, x):
            return 2 * x - 1

    found = invert(nn.Sequential(Twice(), nn.Flatten()), images, "0", steps=400, fidelity=1e4)
    assert max(found.errors) < 0.03
    assert max(found.pixel_errors) < 0.05
    assert (found.reconstructions.int() - found.images.int()).abs().max() < 12
    assert torch.equal(found.images, (255 * images).round().to(torch.uint8))


def test_a_layer_that_forgets_is_matched_but_the_image_is_lost(images):
    found = invert(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), images, "0")
    assert max(found.errors) < 0.05
    assert min(found.pixel_errors) > 0.5


def test_deeper_layers_lose_more_and_the_model_stays_as_it_was(images):
    torch.manual_seed(2)
    model = create_model("resnet", channels=(8, 8), blocks=1, in_channels=1).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    told = []
    first = invert(model, images.double(), "stem", steps=200, tell=told.append)
    last = invert(model, images.double(), model.head.linear, steps=200, name="answer")
    assert sum(first.pixel_errors) < sum(last.pixel_errors)
    assert (first.layer, last.layer) == ("stem", "answer")
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert not model.stem._forward_hooks
    assert told[-1] == 1
    bytes_too = invert(model, (255 * images).round().to(torch.uint8), "stem", steps=5)
    assert torch.equal(bytes_too.images, first.images)


def test_the_same_seed_gives_the_same_image(images):
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU())
    one, same, other = (invert(model, images, "1", steps=20, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.reconstructions, same.reconstructions)
    assert not torch.equal(one.reconstructions, other.reconstructions)


def test_regularisers_against_loops():
    x = torch.rand(1, 2, 4, 5, dtype=torch.float64)
    total = 0.0
    for c in range(2):
        for i in range(3):
            for j in range(4):
                square = (x[0, c, i + 1, j] - x[0, c, i, j]) ** 2 + (x[0, c, i, j + 1] - x[0, c, i, j]) ** 2
                total += (square.item() ** 0.5 / (0.5 / 6.5)) ** 3
    assert _variation(x, 3.0).item() == pytest.approx(total / 24, rel=1e-6)
    assert _bounded(x, 6.0).item() == pytest.approx(((x - 0.5).abs() * 2).pow(6).mean().item())
    assert _variation(torch.full((1, 1, 3, 3), 0.7), 2.0).item() < 1e-9


def test_what_cannot_be_inverted_is_explained(images):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
    with pytest.raises(UnknownNameError, match="unknown layer 'body'"):
        invert(model, images, "body")
    with pytest.raises(ConfigError, match="not used"):
        invert(model, images, nn.Tanh())
    with pytest.raises(ShapeError, match="an inversion takes images"):
        invert(model, images[0], "0")
    with pytest.raises(ConfigError, match="steps"):
        invert(model, images, "0", steps=0)
