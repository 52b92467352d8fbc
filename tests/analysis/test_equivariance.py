"""Equivariance of networks: rounding on the grid, small between the pixels, and the layer that breaks it is named."""

import copy
import math
import warnings

import pytest
import torch
from torch import nn

import evolvent as ev
from evolvent.analysis import draw_blobs, measure_equivariance, pixel_grid
from evolvent.errors import ConfigError
from evolvent.groups import Field, cyclic, dihedral, irrep, regular_fields, scalars
from evolvent.operators.differential import (
    EquivarianceWarning,
    FieldActivation,
    FieldBatchNorm,
    FieldLinear,
    FieldPooling,
    GroupRestriction,
    NeuralEPDO,
    OrientationPooling,
    SteerablePDO,
)

C4, C8, C16 = cyclic(4), cyclic(8), cyclic(16)
SMALL = (8,) * 6


class ChannelBias(nn.Module):
    """A bias for each channel, which claims to commute with the group and does not."""

    def __init__(self, field: Field) -> None:
        super().__init__()
        self.in_field = self.out_field = field
        self.bias = nn.Parameter(torch.randn(field.channels))

    def forward(self, u):
        return u + self.bias[:, None, None]


def classifier(*between: nn.Module, field: Field) -> nn.Sequential:
    """A lift to the field, what is between, and an answer that should not change."""
    lift = SteerablePDO(scalars(field.group), field)
    return nn.Sequential(lift, *between, OrientationPooling(field), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def two_layers(kind: str, order: int = 4, fields: int = 4) -> nn.Sequential:
    field = regular_fields(C16, fields)
    if kind == "steerable":
        ends = SteerablePDO(scalars(C16), field, order), SteerablePDO(field, field, order)
    else:
        activation = "softplus" if kind == "smooth neural" else "relu"
        ends = [NeuralEPDO(field, order, partitions=2, activation=activation) for _ in range(2)]
    return nn.Sequential(ends[0], FieldActivation(field, "elu"), ends[1])


@torch.no_grad()
def centre_pixel_error(model: nn.Sequential, channels: int, width: float, g: int = 1) -> float:
    """The error at the pixel in the middle of an odd map, which every element leaves where it is."""
    images, grid, before, after = draw_blobs(4, channels, 33, width), pixel_grid(33, 33), model[0].in_field, model[-1]
    back = torch.tensor(C16.matrices[C16.inverse(g)])
    expected = after.out_field.act(model(images.at(grid).float()), g)[:, :, 16, 16]
    found = model(before.act(images.at(grid @ back.T).float(), g))[:, :, 16, 16]
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float32, 1e-5), (torch.float64, 1e-11)])
def test_whole_networks_commute_with_quarter_turns_up_to_rounding(dtype, rounding):
    torch.manual_seed(0)
    model = ev.create_model("epdo_c8", fields=SMALL).to(dtype)
    found = measure_equivariance(model, (1, 28, 28), 2)
    assert found.group == "C8"
    assert found.elements == [f"{angle}°" for angle in range(45, 360, 45)]
    assert found.on_grid == [False, True] * 3 + [False]
    assert all(layer.exact <= rounding for layer in found.layers)
    assert found.answer is not None
    assert found.answer.exact <= rounding
    assert 1e-6 < found.layers[0].others < found.answer.others < 1
    assert (found.claimed, found.first_broken) == (True, "")


def test_layers_are_in_order_and_without_their_parts():
    model = ev.create_model("epdo_c8", fields=SMALL)
    found = measure_equivariance(model, (1, 28, 28), 1)
    assert [layer.kind for layer in found.layers[:9]] == [
        "SteerablePDO", "FieldBias", "FieldBatchNorm", "FieldActivation",
        "NeuralEPDO", "FieldPooling", "FieldLinear", "FieldBias", "FieldBatchNorm",
    ]  # fmt: skip
    assert found.layers[4].name == "body.0.0"
    assert found.layers[-1].kind == "OrientationPooling"
    assert not any("rule" in layer.name for layer in found.layers)
    assert found.layers[5].size == (13, 13)


def test_the_errors_of_an_element_are_those_of_the_definition():
    torch.manual_seed(0)
    model, images = classifier(field=regular_fields(C8, 2)), draw_blobs(3, 1, 17)
    found = measure_equivariance(model, (1, 17, 17), 3)
    with torch.no_grad():
        u, v = (model[0](images.at(pixel_grid(17, 17)).rot90(k, (2, 3)).float()) for k in (0, 1))
        expected = ((v - model[0].out_field.transform(u, 2)).norm() / u.norm()).item()
    assert found.layers[0].errors[1] == pytest.approx(expected, rel=0.5, abs=1e-8)


def test_blobs_are_turned_exactly():
    images, grid = draw_blobs(2, 3, 16), pixel_grid(16, 16)
    for g in range(8):
        turned = images.at(grid @ torch.tensor(dihedral(4).matrices[dihedral(4).inverse(g)]).T)
        assert torch.allclose(turned, scalars(dihedral(4), 3).transform(images.at(grid), g), atol=1e-12)


def test_a_bias_for_each_channel_is_named():
    field = regular_fields(C8, 2)
    found = measure_equivariance(classifier(ChannelBias(field), FieldLinear(field, field), field=field), (1, 16, 16))
    assert found.first_broken.startswith("1 (ChannelBias) is the first layer that breaks a symmetry of the pixels")
    assert found.layers[0].exact < 1e-5 < 1e-2 < found.layers[1].exact


def test_features_that_are_not_finite_are_named():
    field = regular_fields(C8, 2)
    model = classifier(FieldLinear(field, field), field=field)
    nn.init.constant_(model[1].weight, math.inf)
    found = measure_equivariance(model, (1, 16, 16))
    assert found.first_broken.startswith("1 (FieldLinear)")
    assert "not finite" in found.first_broken
    assert found.layers[1].exact == math.inf


def test_pooling_that_drops_a_row_is_named_with_the_reason():
    field = regular_fields(C4, 2)
    model = classifier(FieldActivation(field), FieldPooling(field), FieldLinear(field, field), field=field)
    found = measure_equivariance(model, (1, 13, 13))
    assert "2 (FieldPooling)" in found.first_broken
    assert "pooling of 2 on maps of 13x13 drops a row and a column" in found.first_broken
    assert measure_equivariance(model, (1, 14, 14)).first_broken == ""
    with pytest.warns(EquivarianceWarning, match="13x13"):  # the analysis took a copy
        model(torch.randn(1, 1, 13, 13))


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        (nn.ZeroPad2d((0, 1, 0, 1)), "1 pads the sides by 0, 1, 0, 1 pixels"),
        (nn.AvgPool2d(2), "1 has a stride of 2 that leaves out pixels of maps of 15x15"),
    ],
)
def test_ordinary_layers_on_the_way_are_a_reason(plain, reason):
    field = regular_fields(C4, 2)
    found = measure_equivariance(classifier(plain, FieldLinear(field, field), field=field), (1, 15, 15))
    assert reason in found.first_broken
    assert "2 (FieldLinear)" in found.first_broken


def test_centred_strides_break_nothing_and_space_the_pixels():
    torch.manual_seed(0)
    field = regular_fields(C16, 2)
    model = classifier(nn.AvgPool2d(3, 2), SteerablePDO(field, field), field=field)
    found = measure_equivariance(model, (1, 33, 33))
    assert found.first_broken == ""
    assert found.layers[1].size == (16, 16)
    assert found.layers[1].others < 0.01


class Residual(nn.Module):
    """Two branches that are both pooled, and their sum."""

    def __init__(self, field: Field) -> None:
        super().__init__()
        self.inner = nn.Sequential(SteerablePDO(field, field), FieldPooling(field))
        self.shortcut, self.last = FieldPooling(field), SteerablePDO(field, field)

    def forward(self, u):
        return self.last(self.inner(u) + self.shortcut(u))


def test_branches_have_spacings_of_their_own():
    torch.manual_seed(0)
    found = measure_equivariance(classifier(Residual(regular_fields(C8, 2)), field=regular_fields(C8, 2)), (1, 36, 36))
    assert [layer.name for layer in found.layers[1:5]] == ["1.inner.0", "1.inner.1", "1.shortcut", "1.last"]
    assert all(layer.others < 1e-2 for layer in found.layers)
    assert found.first_broken == ""


def test_after_a_restriction_only_the_smaller_group_counts():
    torch.manual_seed(0)
    whole = regular_fields(dihedral(8), 1)
    restriction = GroupRestriction(whole, C8)
    after = restriction.out_field
    lift = SteerablePDO(scalars(dihedral(8)), whole)
    head = [OrientationPooling(after), nn.AdaptiveMaxPool2d(1), nn.Flatten()]
    found = measure_equivariance(nn.Sequential(lift, restriction, SteerablePDO(after, after), *head), (1, 20, 20), 2)
    assert len(found.elements) == 15
    assert not any(map(math.isnan, found.layers[0].errors))
    assert found.answer is not None
    for layer in (*found.layers[1:], found.answer):
        assert [math.isnan(error) for error in layer.errors] == found.mirrored
        assert layer.exact < 1e-5
    assert found.first_broken == ""


def test_fields_of_vectors_and_images_that_are_not_square():
    torch.manual_seed(0)
    vectors, field = Field(irrep(C8, 1), 1), regular_fields(C8, 2)
    found = measure_equivariance(nn.Sequential(SteerablePDO(vectors, field)), (2, 30, 24))
    assert found.on_grid == [False] * 3 + [True] + [False] * 3
    assert found.layers[0].exact < 1e-5
    assert found.layers[0].others < 1e-3
    assert found.answer is None


@pytest.mark.parametrize(("kind", "width"), [("steerable", 4.0), ("smooth neural", 4.0), ("neural", 6.0)])
def test_two_layers_nearly_commute_between_the_pixels(kind, width):
    """Where ReLUs bend the features, narrower blobs would show the bends; see the study of discretisations."""
    torch.manual_seed(0)
    model = two_layers(kind)
    channels = model[0].in_field.channels
    found = measure_equivariance(model, (channels, 33, 33), width=width, elements=[1])
    assert found.elements == ["22.5°"]
    error, at_centre = found.layers[-1].errors[0], centre_pixel_error(model, channels, width)
    assert error < 1e-3
    assert error / 10 < at_centre < 10 * error


def test_the_first_layers_of_a_trained_network_nearly_commute():
    torch.manual_seed(0)
    field = regular_fields(C16, 4)
    model = nn.Sequential(
        SteerablePDO(scalars(C16), field), FieldBatchNorm(field), FieldActivation(field, "elu"),
        NeuralEPDO(field, partitions=4), FieldBatchNorm(field), FieldActivation(field, "elu"),
        OrientationPooling(field), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 2),
    )  # fmt: skip
    train(model)
    found = measure_equivariance(model, (1, 33, 33), elements=[1, 4])
    layers = {layer.name: layer for layer in found.layers}
    assert layers["0"].errors[0] < 1e-3
    assert layers["3"].errors[0] < 1e-3
    assert found.first_broken == ""


def train(model: nn.Module) -> None:
    """20 steps of Adam: is it one blob or two, at any angle?"""
    optimizer, labels, grid = torch.optim.Adam(model.parameters(), 0.01), torch.arange(16) % 2, pixel_grid(33, 33)
    for _ in range(20):
        centres = torch.randn(16, 1, 2, 2, dtype=torch.float64)
        centres = 5 * centres / centres.norm(dim=-1, keepdim=True)
        centres[labels == 1, :, 1] = centres[labels == 1, :, 0]
        squares = (grid - centres[:, :, :, None, None]).square().sum(-1)
        loss = nn.functional.cross_entropy(model(torch.exp(-squares / 18).sum(2).float()), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_an_ordinary_network_is_measured_by_its_answer_and_claims_nothing():
    model = ev.create_model("cnn", channels=(2,) * 6, in_channels=1)
    found = measure_equivariance(model, (1, 28, 28))
    assert (found.group, found.layers, found.claimed, found.first_broken) == ("C4", [], False, "")
    assert found.answer is not None
    assert found.answer.exact > 1e-3
    with pytest.raises(ConfigError, match="without such layers"):
        measure_equivariance(nn.Conv2d(1, 2, 3), (1, 8, 8))
    with pytest.raises(ConfigError, match=r"such as \(1, 28, 28\), got \(28, 28\)"):
        measure_equivariance(model, (28, 28))
    for elements, given in (([9], r"are 0 ... 3, got \[9\]"), (1, "takes a list of elements among 0 ... 3, got 1")):
        with pytest.raises(ConfigError, match=given):
            measure_equivariance(model, (1, 28, 28), elements=elements)  # pyright: ignore[reportArgumentType]


def test_it_tells_how_far_it_is_and_leaves_the_model_as_it_was():
    field, told = regular_fields(C4, 2), []
    model = classifier(FieldBatchNorm(field), field=field).train()
    state = copy.deepcopy(model.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure_equivariance(model, (1, 9, 9), tell=told.append)
    assert told == [1 / 3, 2 / 3, 1.0]
    assert all(part.training and not part._forward_hooks for part in model.modules())
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
