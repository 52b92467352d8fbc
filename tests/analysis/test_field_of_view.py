"""Fields of view of convolutions, which are known."""

import math

import pytest
import torch
from torch import nn

from evolvent.analysis import fields_of_view, measure_field_of_view
from evolvent.analysis.field_of_view import measure_map
from evolvent.errors import ConfigError, ShapeError


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_stacked_convolutions_see_a_square(depth):
    stack = nn.Sequential(*[nn.Conv2d(2, 2, 3, padding=1) for _ in range(depth)])
    found = measure_field_of_view(stack, torch.randn(2, 2, 15, 15))
    assert found.support == (2 * depth + 1) ** 2
    assert found.box == (2 * depth + 1, 2 * depth + 1)
    assert found.pixel == (7, 7)
    assert found.map.max() == 1.0
    assert found.area <= found.support + 1e-9


def test_measures_of_known_maps():
    flat = measure_map(torch.ones(4, 4, dtype=torch.float64))
    assert flat.area == pytest.approx(16)
    assert flat.radius == pytest.approx(math.sqrt(2 * (1.5**2 + 0.5**2) / 2))
    point = torch.zeros(5, 6, dtype=torch.float64)
    point[2, 3] = 7.0
    assert (measure_map(point).radius, measure_map(point).area, measure_map(point).box) == (0.0, 1.0, (1, 1))
    nothing = measure_map(torch.zeros(3, 3, dtype=torch.float64))
    assert (nothing.support, nothing.radius, nothing.area) == (0, 0.0, 0.0)


def test_pixel_and_channels_can_be_chosen():
    conv = nn.Conv2d(1, 40, 3, padding=1)
    corner = measure_field_of_view(conv, torch.zeros(1, 1, 9, 9), (0, 0))
    assert corner.support == 4
    one = measure_field_of_view(conv, torch.zeros(1, 1, 9, 9), channels=1)
    torch.testing.assert_close(one.map[3:6, 3:6], (conv.weight[0, 0].abs() / conv.weight[0, 0].abs().max()).double())
    with pytest.raises(ConfigError, match="no pixel"):
        measure_field_of_view(conv, torch.zeros(1, 1, 9, 9), (9, 0))
    with pytest.raises(ShapeError, match="height, width"):
        measure_field_of_view(nn.Flatten(), torch.zeros(1, 1, 9, 9))


def test_view_of_a_network_widens_from_evolution_to_evolution(network, images):
    model = network(blocks=1)
    first, second = fields_of_view(model, images)
    assert (first.name, second.name) == ("body.0", "body.2")
    assert first.map.shape == (8, 8)
    assert second.radius > first.radius
    assert model.training
    with pytest.raises(ConfigError, match="not an ImageNetwork"):
        fields_of_view(nn.Conv2d(1, 1, 1), images)
