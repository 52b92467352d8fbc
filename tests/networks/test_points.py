"""Networks for points of the plane."""

import pytest
import torch

from evolvent import create_model, load, save
from evolvent.errors import ConfigError, ShapeError
from evolvent.networks import PointNetwork
from evolvent.testing import check_network

KINDS = ("residual", "antisymmetric", "hamiltonian")


@pytest.mark.parametrize("dynamics", KINDS)
@pytest.mark.parametrize("lift", ["zero", "linear"])
def test_every_kind_keeps_the_contract(dynamics, lift):
    check_network("point_resnet", torch.randn(4, 3), in_features=3, dynamics=dynamics, lift=lift, width=6, layers=3)


@pytest.mark.parametrize("dynamics", KINDS)
def test_trajectory_begins_at_the_points_and_ends_in_the_features(dynamics, dtype, tolerance):
    model = create_model("point_resnet", dynamics=dynamics, layers=5).to(dtype)
    x = torch.randn(7, 2, dtype=dtype)
    [path] = model.trajectories(x)
    assert len(path) == 6
    torch.testing.assert_close(path[0][:, :2], x, **tolerance)
    torch.testing.assert_close(path[-1], model.forward_features(x), **tolerance)


def test_a_step_is_eulers():
    model = create_model("point_resnet", width=4, layers=1, step_size=0.5)
    assert isinstance(model, PointNetwork)
    layer = model.evolution.dynamics_at(0)
    u = model.lift(torch.randn(3, 2))
    expected = u + 0.5 * torch.tanh(u @ layer.conv1.weight.T + layer.bias1)
    torch.testing.assert_close(model.evolution(u), expected)


def test_wrong_points_are_refused():
    with pytest.raises(ShapeError, match=r"2 coordinates.*\(4, 3\)"):
        create_model("point_resnet")(torch.zeros(4, 3))
    with pytest.raises(ShapeError):
        create_model("point_resnet").trajectories(torch.zeros(4))


@pytest.mark.parametrize(
    "options", [{"width": 1}, {"layers": 0}, {"width": 5, "dynamics": "hamiltonian"}, {"dynamics": "chaotic"}]
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigError):
        create_model("point_resnet", **options)


def test_saved_and_loaded(tmp_path):
    model = create_model("point_resnet", dynamics="hamiltonian").eval()
    save(model, tmp_path / "m")
    x = torch.randn(3, 2)
    assert torch.equal(load(tmp_path / "m")(x), model(x))
