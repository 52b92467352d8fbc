"""Blocks that are asked for features at coordinates: their arithmetic, other resolutions, and what they warn of."""

import math

import pytest
import torch
from torch import nn

from evolvent import create_model, set_gradient
from evolvent.equations import jet
from evolvent.errors import ConfigError, ShapeError
from evolvent.networks import ExtrapolationWarning, SolutionBlock, solution_blocks
from evolvent.networks.prnet import CoordinateField
from evolvent.networks.solution_block import CoordinateConvolution, lattice


def block_of(size=(6, 6), channels=4, **options) -> SolutionBlock:
    return SolutionBlock(CoordinateField(channels, 2, **options), size).double()


def features(size=(6, 6), channels=4) -> torch.Tensor:
    return torch.randn(3, channels, *size, dtype=torch.float64)


@pytest.mark.parametrize("kernel", [1, 3])
def test_coordinates_are_further_channels_of_one_convolution(kernel):
    conv = CoordinateConvolution(4, 3, 5, kernel).double()
    h, coordinates = features(), torch.randn(3, 1, 1, 6, 6, dtype=torch.float64)
    joined = torch.cat([h, *(c.expand(3, 1, 6, 6) for c in coordinates)], dim=1)
    plain = nn.functional.conv2d(joined, conv.weight, conv.bias, padding=kernel // 2)
    torch.testing.assert_close(conv(h, *coordinates), plain, rtol=0, atol=1e-13)


def test_the_field_is_that_of_table_10():
    """Layer by layer, with coordinates as channels: 67 to 67 to 64."""
    field = CoordinateField(64).double()
    layers = nn.Sequential(
        nn.Conv2d(67, 67, 3, padding=1), nn.GroupNorm(67, 67), nn.Conv2d(67, 64, 3, padding=1), nn.GroupNorm(32, 64),
        nn.ReLU(),
    ).double()  # fmt: skip
    for mine, own in zip(layers[:4], (field.conv1, field.norm1, field.conv2, field.norm2), strict=True):
        mine.load_state_dict(own.state_dict())
    h, (x, y, t) = features(channels=64), lattice((6, 6), torch.float64)
    joined = torch.cat([h, torch.cat([x, y, t], dim=1).expand(3, -1, -1, -1)], dim=1)
    torch.testing.assert_close(field(h, x, y, t), layers(joined))
    assert sum(p.numel() for p in layers.parameters()) + 132_096 + 778 == 212_260  # with stem and head


def test_points_begin_as_a_lattice_at_time_one():
    x, y, t = block_of((6, 6)).points
    assert x[:, 0].tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert torch.equal(x.T, y)
    assert (t == 1).all()


def test_asking_at_the_points_is_the_forward_pass():
    block, h = block_of(), features()
    torch.testing.assert_close(block.query(h, block.points[:2], block.points[2]), block(h))
    torch.testing.assert_close(block.resample(h, (6, 6)), block(h))
    x, y, _ = lattice((6, 6), torch.float64)
    torch.testing.assert_close(block.query(h, torch.cat([x, y])[:, 0], 0.0), block.initial(h))


@pytest.mark.parametrize("size", [(12, 9), (3, 3), (1, 6)])
def test_any_resolution_may_be_asked_for(size):
    block, h = block_of(), features()
    assert block.resample(h, size).shape == (3, 4, *size)
    assert block(features(size)).shape == (3, 4, *size)  # then the points are interpolated
    model = create_model("prnet_mnist", width=8, groups=4)
    assert model(torch.randn(2, 1, 40, 33)).shape == (2, 10)


def test_a_finer_query_of_a_smooth_field_converges():
    """A field without taps in space is the same function in every resolution."""

    class Pointwise(nn.Module):
        def forward(self, h, x, y, t):
            return h * torch.sin(3 * x + y + t)

    block = SolutionBlock(Pointwise(), (6, 6)).double()
    h = torch.ones(1, 1, 6, 6, dtype=torch.float64)
    fine = block.resample(h, (11, 11))
    torch.testing.assert_close(fine[..., ::2, ::2], block(h), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("shift", "t", "name"), [(0.5, 0.5, "x from"), (0.0, 1.5, "t from"), (-0.3, -0.1, "y from")])
def test_coordinates_outside_of_the_trained_range_are_warned_of(shift, t, name):
    block, h = block_of(), features()
    d = block.points[:2].detach() + shift
    with pytest.warns(ExtrapolationWarning, match=name):
        block.query(h, d, t)


def test_times_that_are_no_numbers_are_warned_of():
    block = block_of()
    with pytest.warns(ExtrapolationWarning, match="t from nan"):
        block.query(features(), block.points[:2].detach(), math.nan)


def test_places_of_the_wrong_shape_are_refused():
    with pytest.raises(ShapeError, match=r"\(3, 6, 6\)"):
        block_of().query(features(), torch.zeros(3, 6, 6), 0.5)


@pytest.mark.parametrize(("norm", "largest"), [("channel", 1e-4), ("joint", 1e3)])
def test_normalisation_of_single_channels_removes_a_shift(norm, largest):
    """Without zeros around the image, nothing of the coordinate is left; jointly normalised, all of it."""
    field = CoordinateField(8, 4, norm=norm, padding_mode="circular").double()
    h, (x, y, t) = features(channels=8), lattice((6, 6), torch.float64)
    u, u_x = jet(lambda x: field(h, x, y, t), x, torch.ones_like(x), order=1)
    ratio = (u_x.norm() / u.norm()).item()
    assert ratio < 1e-10 if norm == "channel" else 1e-3 < ratio < largest


def test_blocks_are_found_and_others_have_none():
    assert len(solution_blocks(create_model("prnet_mnist", width=8, groups=4))) == 1
    assert solution_blocks(create_model("rknet", width=8)) == []


def test_softplus_has_all_derivatives_and_relu_alone_has_one():
    h, (x, y, t) = features(channels=8), lattice((6, 6), torch.float64)
    for activation in ("relu", "softplus"):
        field = CoordinateField(8, 4, norm="none", activation=activation).double()
        found = jet(lambda x, f=field: f(h, x, y, t), x, torch.ones_like(x), order=3)
        assert all((u != 0).any() for u in found[2:]) == (activation == "softplus")


def test_the_adjoint_of_the_mobile_network_acts_on_the_ode_alone():
    model = create_model("odenet_mobile", blocks=1, rtol=1e-8, atol=1e-8).double().eval()
    x, gradients = torch.randn(1, 3, 8, 8, dtype=torch.float64), []
    for strategy in ("backprop", "adjoint"):
        set_gradient(model, strategy)
        model.zero_grad()
        model(x).square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    largest = max(one.abs().max().item() for one in gradients[0])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6 * largest)


def test_features_and_sizes_that_do_not_fit_are_refused():
    block, h = block_of(), features()
    with pytest.raises(ShapeError, match=r"does not take float\d\d of shape"):
        block.query(h[:, :1], block.points[:2], 0.5)
    with pytest.raises(ConfigError, match="height must be a whole number of at least 1, got 0"):
        block.resample(h, (0, 12))


def test_images_of_which_one_pixel_is_left_are_refused():
    """Normalised on its own, a pixel of a channel is always 0."""
    model = create_model("prnet_mnist", image_size=8)
    with pytest.raises(ShapeError, match="at least 10 pixels"):
        model(torch.randn(2, 1, 8, 8))
    assert create_model("prnet_mnist", image_size=8, norm="none")(torch.randn(2, 1, 8, 8)).shape == (2, 10)
    assert create_model("prnet_mnist", image_size=10)(torch.randn(1, 1, 10, 10)).isfinite().all()
