"""Networks with twice the steps."""

import pytest
import torch
from torch import nn

import evolvent as ev
from evolvent import Evolution, evolutions
from evolvent.dynamics import Hamiltonian
from evolvent.errors import ConfigError
from evolvent.evolution import refine_evolutions
from evolvent.integrators import Verlet
from evolvent.networks import refine


def flow(steps: int) -> Evolution:
    return Evolution([Hamiltonian(2) for _ in range(steps)], Verlet(), step_size=0.1)


def test_any_module_with_evolutions_is_refined():
    model = nn.Sequential(nn.Conv2d(1, 4, 1), flow(2), nn.Sequential(flow(3)))
    fine = refine(model)
    assert [e.steps for _, e in evolutions(fine)] == [4, 6]
    assert [e.steps for _, e in evolutions(model)] == [2, 3]
    assert refine_evolutions(flow(2)).steps == 4
    with pytest.raises(ConfigError, match="contains no Evolution"):
        refine(nn.Linear(2, 2))


@pytest.mark.parametrize("blocks", [2, (1, 3)])
def test_a_refined_network_can_be_saved_and_loaded(tmp_path, blocks):
    model = ev.create_model("hamiltonian", in_channels=1, image_size=8, channels=(4, 8), blocks=blocks, step_size=0.3)
    fine = refine(refine(model))
    assert fine.spec.options["step_size"] == 0.075
    assert fine.spec.options["blocks"] == (8 if blocks == 2 else (4, 12))
    assert model.spec.options["step_size"] == 0.3
    ev.save(fine, tmp_path / "model")
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(ev.load(tmp_path / "model")(x), fine.eval()(x))


def test_a_member_of_a_family_refines_from_its_own_options():
    assert refine(ev.create_model("hamiltonian74")).spec == ev.networks.ModelSpec(
        "hamiltonian74", {"blocks": 12, "step_size": 0.05}
    )


def test_networks_with_transition_blocks_are_refused():
    with pytest.raises(ConfigError, match=r"resnet cannot be refined.*4 \+ 3 steps.*4 \+ 2"):
        refine(ev.create_model("resnet", channels=(4, 8), blocks=2))
    one_unit = ev.create_model("preresnet", channels=(4,), blocks=2)
    state = torch.get_rng_state()
    assert [e.steps for _, e in evolutions(refine(one_unit))] == [4]
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("blocks", [1, 2, 6])
def test_networks_whose_nonlocal_blocks_have_a_step_of_their_own_are_refused(blocks):
    model = ev.create_model("nonlocal_hamiltonian", channels=(4,), blocks=blocks, image_size=8)
    with pytest.raises(ConfigError, match=r"nonlocal_hamiltonian cannot be refined.*a family such as hamiltonian"):
        refine(model)
