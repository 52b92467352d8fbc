"""Nonlocal Hamiltonian networks against Bohn, Griebel, Kannan 2021, Table 1."""

import pytest
import torch

from evolvent import create_model, refine
from evolvent.analysis import count_parameters
from evolvent.errors import ConfigError
from evolvent.testing import check_compiles, check_network

OPERATORS = ["diffusion", "fractional", "riesz", "log"]
every_operator = pytest.mark.parametrize("operator", OPERATORS)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 558_762),
        ({"num_classes": 100}, 720_132),
        ({"image_size": 96, "head_pool": 8, "subsample": 4}, 550_922),
        ({"num_classes": 20, "readout": "segmentation", "subsample": 3}, 543_092),
        ({"bias": True, "norm": "batch"}, 562_506),
        ({"stages": 4}, 594_922),
        ({"stages": 4, "num_classes": 100}, 756_292),
        ({"stages": 4, "image_size": 96, "head_pool": 8}, 587_082),
    ],
)
def test_parameters_are_those_of_the_paper(options, count):
    assert count_parameters(create_model("nonlocal_hamiltonian74", **options)) == count


def test_names_are_operators():
    for name in OPERATORS[1:]:
        member, whole = (
            create_model(f"{name}_hamiltonian74"),
            create_model("nonlocal_hamiltonian74", nonlocal_operator=name),
        )
        assert str(member) == str(whole)


def test_block_stands_after_the_second():
    for blocks, kinds in [(1, "EN"), (2, "EN"), (3, "ENE"), (6, "ENE")]:
        model = create_model("nonlocal_hamiltonian", channels=(4,), blocks=blocks)
        assert "".join(type(m).__name__[0] for m in model.body) == kinds
    assert [len(create_model("nonlocal_hamiltonian74").body[k].dynamics) for k in (0, 2, 4, 6)] == [2, 4, 2, 4]


SMALL = {"channels": (4, 8), "blocks": 3}


@every_operator
@pytest.mark.parametrize("options", [{}, {"readout": "segmentation", "subsample": 3, "stages": 1}])
def test_options_keep_the_contract(operator, options):
    check_network("nonlocal_hamiltonian", torch.randn(2, 3, 32, 32), nonlocal_operator=operator, **SMALL, **options)


@pytest.mark.slow
@every_operator
def test_network_can_be_compiled(operator):
    model = create_model("nonlocal_hamiltonian", nonlocal_operator=operator, channels=(4,), blocks=1, image_size=8)
    check_compiles(model, torch.randn(2, 3, 8, 8), backend="aot_eager")


def test_coarse_segmentation_answers_at_full_size():
    model = create_model("nonlocal_hamiltonian", readout="segmentation", num_classes=5, coarsen=2, **SMALL)
    assert model(torch.randn(2, 3, 8, 12)).shape == (2, 5, 8, 12)
    assert model.forward_features(torch.randn(2, 3, 8, 12)).shape == (2, 8, 4, 6)


def test_segmentation_takes_any_image():
    model = create_model("nonlocal_hamiltonian", readout="segmentation", num_classes=5, subsample=3, **SMALL)
    assert model(torch.randn(2, 3, 7, 10)).shape == (2, 5, 7, 10)


@pytest.mark.parametrize("constant", [0.0, 1.0, 1e4])
@every_operator
def test_constant_images_train(operator, constant):
    model = create_model("nonlocal_hamiltonian", nonlocal_operator=operator, **SMALL)
    model(torch.full((2, 3, 32, 32), constant)).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_wrong_options_are_refused():
    with pytest.raises(ConfigError, match="too few for subsample"):
        create_model("nonlocal_hamiltonian", image_size=8, subsample=4, head_pool=1)
    with pytest.raises(ConfigError, match="operator"):
        create_model("nonlocal_hamiltonian", nonlocal_operator="laplace")
    with pytest.raises(ConfigError, match="even"):
        create_model("nonlocal_hamiltonian", channels=(3,))


def test_refinement_is_refused_since_the_block_keeps_its_place():
    with pytest.raises(ConfigError, match="cannot be refined"):
        refine(create_model("nonlocal_hamiltonian", **SMALL))
