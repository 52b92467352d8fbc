"""Perceptrons of coordinates: the symmetries they declare hold exactly, whatever the weights."""

import pytest
import torch

from evolvent import create_model
from evolvent.errors import ConfigError, ShapeError
from evolvent.networks.perceptron import CoordinateInputs
from evolvent.testing import check_network

CHANGES = {  # symmetry -> what may be done to a coordinate in [0, 4], and the sign of the answer
    "periodic": [(lambda x: x + 4, 1), (lambda x: x - 8, 1)],
    "even": [(lambda x: 4 - x, 1)],
    "odd": [(lambda x: 4 - x, -1)],
    "periodic-even": [(lambda x: x + 4, 1), (lambda x: 4 - x, 1)],
    "periodic-odd": [(lambda x: x + 4, 1), (lambda x: 4 - x, -1)],
}


@pytest.mark.parametrize("symmetry", CHANGES)
def test_symmetries_hold(symmetry):
    net = create_model("perceptron", lower=(0, 0), upper=(4, 1), symmetry=(symmetry, "none"), harmonics=2).double()
    x = 4 * torch.rand(20, 2, dtype=torch.float64)
    for change, sign in CHANGES[symmetry]:
        moved = torch.stack([change(x[:, 0]), x[:, 1]], 1)
        torch.testing.assert_close(net(moved), sign * net(x), rtol=0, atol=1e-12)
    other = torch.stack([x[:, 0] + 0.3, x[:, 1]], 1)
    assert (net(other) - net(x)).abs().max() > 1e-3


def test_odd_in_two_coordinates():
    net = create_model("perceptron", symmetry=("odd", "periodic-odd")).double()
    x = torch.rand(9, 2, dtype=torch.float64)
    torch.testing.assert_close(net(-x), net(x), rtol=0, atol=1e-13)
    torch.testing.assert_close(net(x * torch.tensor([-1.0, 1.0])), -net(x), rtol=0, atol=1e-13)


def test_coordinates_and_result_are_scaled():
    small = create_model("perceptron")
    large = create_model("perceptron", lower=(0, 100), upper=(10, 300), scale=50.0, shift=7.0)
    large.load_state_dict(small.state_dict())
    x = 2 * torch.rand(6, 2) - 1
    moved = x * torch.tensor([5.0, 100.0]) + torch.tensor([5.0, 200.0])
    torch.testing.assert_close(large(moved), 7 + 50 * small(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{"symmetry": ("periodic", "odd", "even"), "in_features": 3, "num_classes": 2}])
def test_options_keep_the_contract(options):
    check_network("perceptron", torch.randn(4, 3), **options)


def test_wrong_options_and_points():
    with pytest.raises(ConfigError, match=r"to a larger one, got 1\.0 to 0\.0"):
        create_model("perceptron", lower=(1, 0), upper=(0, 1))
    with pytest.raises(ConfigError, match="a symmetry, got 2, 2 and 1"):
        create_model("perceptron", symmetry=("even",))
    with pytest.raises(ConfigError, match="2 coordinates need 2"):
        create_model("perceptron", lower=(0,), upper=(1,), symmetry=("even",))
    with pytest.raises(ShapeError, match="points of 2 coordinates"):
        create_model("perceptron")(torch.zeros(4, 3))


def test_coordinates_that_are_alike_are_scaled_together():
    alike, x = CoordinateInputs([-1.0] * 5, [3.0] * 5, ["none"] * 5), torch.rand(7, 5, dtype=torch.float64)
    torch.testing.assert_close(alike(x), torch.cat([s for s, _ in alike._scaled(x)], dim=1), rtol=0, atol=0)
    x.requires_grad_()
    assert len(alike(x).grad_fn.next_functions) == 2  # a product, not a column for each coordinate
