"""The plain convolutional network against PyTorch written out, and the sizes of images that it takes."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from evolvent import create_model
from evolvent.errors import ConfigError, ShapeError

SMALL = {"channels": (3, 4, 5, 4, 3, 8), "in_channels": 1}


def written_out(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The network in evaluation mode, from its convolutions, normalisations and linear maps in order."""
    parts = list(model.modules())
    convs = [part for part in parts if isinstance(part, nn.Conv2d)]
    norms = [part for part in parts if isinstance(part, nn.BatchNorm2d | nn.BatchNorm1d)]
    first, last = (part for part in parts if isinstance(part, nn.Linear))
    for number, (conv, norm, padding) in enumerate(zip(convs, norms[:6], (1, 2, 2, 2, 2, 0), strict=True), 1):
        x = torch.relu(norm(F.conv2d(x, conv.weight, padding=padding)))
        x = F.avg_pool2d(x, 2) if number in (2, 3) else x
    return last(torch.relu(norms[6](first(x.mean((2, 3))))))


@pytest.mark.parametrize("size", [(28, 28), (22, 22), (29, 37)])
def test_it_is_what_the_paper_describes(size):
    model = create_model("cnn", **SMALL, dropout=0.5)
    model(torch.randn(16, 1, 28, 28))  # moves the statistics of the normalisations
    x = torch.randn(3, 1, *size)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(x), written_out(model, x))


@pytest.mark.parametrize("size", [(21, 28), (40, 8)])
def test_images_that_would_shrink_to_nothing_are_refused(size):
    with pytest.raises(ShapeError, match=rf"at least 22x22 pixels, got shape \(2, 1, {size[0]}, {size[1]}\)"):
        create_model("cnn", **SMALL)(torch.zeros(2, 1, *size))


@pytest.mark.parametrize("channels", [(8, 8, 8, 8, 8), (8,) * 7, (8, 8, 8, 8, 8, 0)])
def test_there_are_six_widths(channels):
    with pytest.raises(ConfigError, match="channels"):
        create_model("cnn", channels=channels)


def test_dropout_acts_before_the_last_layer_in_training_alone():
    torch.manual_seed(0)
    model, x = create_model("cnn", **SMALL, dropout=0.5), torch.randn(8, 1, 22, 22)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))


def test_there_is_no_evolution_and_so_no_trajectory():
    assert create_model("cnn", **SMALL).eval().trajectories(torch.zeros(1, 1, 22, 22)) == []
