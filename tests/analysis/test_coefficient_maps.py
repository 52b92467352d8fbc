"""Coefficients of neural ePDOs as maps: known operators show as what they are, and maps turn with the image."""

import math

import pytest
import torch
from torch import nn

import evolvent as ev
from evolvent.analysis import coefficient_maps
from evolvent.groups import cyclic, dihedral, direct_sum, multi_indices, quotient, regular, regular_fields
from evolvent.groups.field import Field
from evolvent.operators.differential import NeuralEPDO


def constant_layer(group, coefficients: dict[tuple[int, int], float]) -> NeuralEPDO:
    """A layer on one regular field of ones whose coefficients, in the frame of each orientation, are these numbers."""
    layer = NeuralEPDO(regular_fields(group, 1), order=4, reduction=1, partitions=1)
    with torch.no_grad():
        layer.rule.first.weight.fill_(1 / group.order)  # the mean over orientations, which is 1
        values = torch.tensor([coefficients.get(index, 0.0) for index in multi_indices(4)])
        layer.rule.second.weight.copy_(values[:, None, None].expand_as(layer.rule.second.weight) / group.order)
    return layer


def found_on_ones(layer: NeuralEPDO):
    [found] = coefficient_maps(layer, torch.ones(1, layer.in_field.channels, 7, 7)).layers
    return found


@pytest.mark.parametrize("group", [cyclic(8), dihedral(4)])
def test_a_laplacian_is_a_laplacian(group):
    found = found_on_ones(constant_layer(group, {(2, 0): 0.5, (0, 2): 0.5}))
    assert torch.allclose(found.laplacian, torch.full((1, 7, 7), math.sqrt(0.5)), atol=1e-6)
    assert torch.allclose(found.strengths[:, 2], found.laplacian, atol=1e-6)
    for nothing in (found.identity, found.gradient, found.directed, found.strengths[:, [0, 1, 3, 4]]):
        assert nothing.abs().max() < 1e-6
    assert found.shares == pytest.approx([0, 0, 1, 0, 0], abs=1e-9)


def test_the_identity_is_the_identity():
    found = found_on_ones(constant_layer(cyclic(8), {(0, 0): -0.3}))
    assert torch.allclose(found.identity, torch.full((1, 7, 7), -0.3), atol=1e-6)
    assert found.shares == pytest.approx([1, 0, 0, 0, 0], abs=1e-9)


def test_derivatives_along_each_orientation_have_strength_and_no_common_direction():
    found = found_on_ones(constant_layer(cyclic(8), {(1, 0): 0.4}))
    assert torch.allclose(found.strengths[:, 1], torch.full((1, 7, 7), 0.4), atol=1e-6)
    assert found.gradient.abs().max() < 1e-6


def test_directions_are_those_of_the_image():
    found = found_on_ones(constant_layer(cyclic(1), {(1, 0): 0.4, (1, 1): 0.2}))
    assert torch.allclose(found.gradient[0, :, 3, 3], torch.tensor([0.4, 0.0]), atol=1e-6)
    assert torch.allclose(found.axis, torch.full((1, 7, 7), math.pi / 4), atol=1e-6)


@pytest.mark.parametrize("kind", ["regular", "sum with a quotient"])
def test_maps_turn_with_the_image(kind):
    torch.manual_seed(0)
    C8 = cyclic(8)
    regular_part = regular(C8)
    representation = regular_part if kind == "regular" else direct_sum(regular_part, quotient(C8, [0, 4]))
    layer = NeuralEPDO(Field(representation, 2), partitions=2)
    u = torch.randn(1, layer.in_field.channels, 9, 9)
    [here] = coefficient_maps(layer, u).layers
    [there] = coefficient_maps(layer, layer.in_field.transform(u, 2)).layers
    for name in ("strengths", "identity", "laplacian"):
        assert torch.allclose(getattr(there, name), turned(getattr(here, name)), atol=1e-5), name
    right, up = turned(here.gradient).unbind(1)
    assert torch.allclose(there.gradient, torch.stack([-up, right], dim=1), atol=1e-5)
    assert torch.allclose(there.directed, -turned(here.directed), atol=1e-5)
    assert here.gradient.abs().max() > 1e-3


def turned(maps):
    return maps.rot90(1, (-2, -1))


def test_a_network_has_one_record_for_each_neural_layer():
    model = ev.create_model("epdo_c8", fields=(8,) * 6).train()
    found = coefficient_maps(model, torch.randn(2, 1, 28, 28))
    assert found.images.shape == (2, 28, 28)
    assert [layer.name for layer in found.layers] == [f"body.{k}.0" for k in range(5)]
    assert [layer.spacing for layer in found.layers] == [1, 2, 4, 4, 4]
    assert found.layers[0].strengths.shape == (2, 5, 26, 26)
    assert all(sum(layer.shares) == pytest.approx(1) for layer in found.layers)
    assert all(part.training for part in model.modules())


def test_layers_of_low_order_have_zeros_and_others_are_passed_over():
    field = regular_fields(cyclic(4), 2)
    low = NeuralEPDO(field, order=0, partitions=2)
    invariant = NeuralEPDO(field, partitions=2, coefficients="invariant")
    [found] = coefficient_maps(nn.Sequential(invariant, low), torch.randn(1, 8, 6, 6)).layers
    assert found.name == "1"
    assert found.gradient.abs().max() == 0
    assert found.shares == [1.0]
