"""Networks over fields: answers do not change when images are turned."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from evolvent import create_model, set_gradient
from evolvent.errors import ConfigError
from evolvent.groups import cyclic, dihedral, regular_fields, scalars
from evolvent.operators.differential import SteerablePDO, dense
from evolvent.testing import check_equivariance

GROUPS = {"C4": cyclic(4), "C8": cyclic(8), "D4": dihedral(4)}
TOLERANCES = {torch.float32: 2e-6, torch.float64: 1e-12}
FAMILIES = ["equivariant_hamiltonian", "equivariant_parabolic"]


def network(name: str, **options) -> nn.Module:
    model = create_model(name, fields=(2, 4), blocks=2, in_channels=2, num_classes=3, **options)
    for key, p in model.named_parameters():
        if "bias" in key or "norm" in key:
            nn.init.normal_(p, 0.5)
    return model


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("size", [12, 9])
@pytest.mark.parametrize("training", [True, False])
def test_answers_do_not_change_when_images_are_turned(name, group, size, training):
    model = network(name, group=group, norm="batch", bias=True).train(training)
    check_equivariance(model, scalars(GROUPS[group], 2), None, size, TOLERANCES)


@pytest.mark.parametrize("name", FAMILIES)
def test_features_turn_with_the_image(name):
    class Features(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = network(name, group="D4")

        def forward(self, x):
            return self.model.forward_features(x)

    check_equivariance(Features(), scalars(dihedral(4), 2), regular_fields(dihedral(4), 4), 8, TOLERANCES)


@pytest.mark.parametrize("name", FAMILIES)
def test_dense_copies_answer_the_same(name):
    """Equations act with their operators both ways, so that a dense one has an adjoint too."""
    model, x = network(name, group="C8", norm="batch", bias=True).double().eval(), torch.randn(2, 2, 8, 8).double()
    with torch.no_grad():
        copied = dense(model)
        torch.testing.assert_close(copied(x), model(x), rtol=1e-10, atol=1e-10)
    assert not any(isinstance(part, SteerablePDO) for part in copied.modules())


def test_ordinary_networks_do_not_have_it():
    model = create_model("hamiltonian", channels=(4, 8), blocks=1, in_channels=2, image_size=8)
    with pytest.raises(AssertionError, match="element 1 of C4"):
        check_equivariance(model, scalars(cyclic(4), 2), None, 8, TOLERANCES)


def test_reversible_gradients_are_those_of_backpropagation():
    model = network("equivariant_hamiltonian", norm="batch", bias=True).double()
    x, found = torch.randn(2, 2, 8, 8, dtype=torch.float64), []
    for strategy in ("backprop", "reversible"):
        set_gradient(model, strategy)
        model.zero_grad()
        model(x).square().sum().backward()
        found.append([p.grad for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def test_fields_are_split_in_halves():
    with pytest.raises(ConfigError, match="fields must be even"):
        create_model("equivariant_hamiltonian", fields=(3, 4))
    with pytest.raises(ConfigError, match="group"):
        create_model("equivariant_hamiltonian", group="C5")
