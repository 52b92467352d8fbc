"""Every family of networks goes through the same checks; members differ in their sizes and operators only."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import FAMILIES, GRAPH_FAMILIES, SMALL, example, extra, small_options

from evolvent import create_model, list_models, set_gradient
from evolvent.evolution import evolutions
from evolvent.integrators import ReversibleIntegrator
from evolvent.networks import ImageNetwork, model_entry
from evolvent.testing import check_compiles, check_network

IMAGE_FAMILIES = ("hamiltonian", "resnet", "preresnet")
OTHER_FAMILIES = [name for name in FAMILIES if name not in GRAPH_FAMILIES]
OPERATOR_MEMBERS = ("lean_hamiltonian", "lean5_hyperbolic", "multigrid_parabolic")  # one of each operator kind


@pytest.mark.parametrize("name", [*FAMILIES, *OPERATOR_MEMBERS])
def test_network_keeps_the_contract(name):
    check_network(name, example(name), extra=extra(name), **small_options(name))


def test_members_of_every_operator_kind_are_checked():
    fixed = {name: model_entry(name).fixed.get("operator") for name in list_models()}
    assert {fixed[name] for name in OPERATOR_MEMBERS} == set(fixed.values()) - {None}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in list_models() if not extra(name)])
def test_network_keeps_the_contract_at_its_own_size(name):
    check_network(name, example(name))


@pytest.mark.parametrize("options", [{"readout": "segmentation"}, {"bias": True, "norm": "batch"}, {"dropout": 0.5}])
def test_options_keep_the_contract(options):
    check_network("hamiltonian", torch.randn(2, 3, 32, 32), **SMALL, **options)


@pytest.mark.parametrize("family", [family for family in OTHER_FAMILIES if not family.startswith("odenet")])
def test_the_order_in_memory_changes_nothing(family):
    model = create_model(family, **small_options(family)).double()
    reversible = all(isinstance(evolution.integrator, ReversibleIntegrator) for _, evolution in evolutions(model))
    x = example(family).double()
    expected = value_and_gradients(model, x)
    model.to(memory_format=torch.channels_last)
    for strategy in ("backprop", "reversible") if reversible else ("backprop",):
        set_gradient(model, strategy)
        for a, b in zip(value_and_gradients(model, x), expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * max(1.0, b.abs().max().item()))


def value_and_gradients(model: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    value = model(x)
    value.square().sum().backward()
    return [value.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")  # compilers warn of their own inner life
@pytest.mark.parametrize("family", OTHER_FAMILIES)
def test_family_compiles(family):
    model = create_model(family, **small_options(family))
    adaptive = any(evolution.integrator.adaptive for _, evolution in evolutions(model))
    coupled = getattr(model, "couples_batch", False)
    check_compiles(model, example(family), fullgraph=not (adaptive or coupled))


@settings(max_examples=8)
@given(
    st.sampled_from(IMAGE_FAMILIES),
    st.integers(1, 2),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 3),
)
def test_degenerate_images(family, batch, in_channels, height, width, num_classes):
    """Down to one pixel, one channel, one class and one image."""
    fixed = {"image_size": (height, width), "head_pool": 1} if family == "hamiltonian" else {}
    model = create_model(family, channels=(4,), blocks=1, in_channels=in_channels, num_classes=num_classes, **fixed)
    x = torch.randn(batch, in_channels, height, width)
    assert model.eval()(x).shape == (batch, num_classes)
    assert model.forward_features(x).shape == (batch, 4, height, width)


@pytest.mark.parametrize("family", IMAGE_FAMILIES)
def test_trajectories_end_in_the_features(family, dtype, tolerance):
    model = create_model(family, **SMALL).to(dtype).eval()
    assert isinstance(model, ImageNetwork)
    x = torch.randn(2, 3, 32, 32, dtype=dtype)
    paths = model.trajectories(x)
    assert len(paths) == 2
    if family != "preresnet":  # which normalises after the last evolution
        torch.testing.assert_close(paths[-1][-1], model.forward_features(x), **tolerance)
