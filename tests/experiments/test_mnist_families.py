"""The recipe that compares all families on MNIST compares like with like."""

import pytest

from evolvent import create_model
from evolvent.experiments.catalogue import load_recipe
from evolvent.networks import model_entry
from evolvent.operators import MultigridConvolution

CELLS = {cell.variant: cell for cell in load_recipe("mnist-families").cells()}


def network(variant: str):
    known = model_entry(CELLS[variant].model.name).known_options()
    digits = {"in_channels": 1, "image_size": 28}
    fitting = {key: value for key, value in digits.items() if key in known}
    return create_model(CELLS[variant].model.name, **fitting, **CELLS[variant].model.options)


@pytest.mark.parametrize("variant", CELLS)
def test_networks_are_of_one_size(variant):
    assert 40_000 < sum(p.numel() for p in network(variant).parameters()) < 60_000


def test_all_see_the_same_images_for_as_long():
    assert len({(cell.data.model_dump_json(), cell.training.epochs) for cell in CELLS.values()}) == 1


def test_multigrid_has_more_than_one_level():
    found = [m for m in network("multigrid_hamiltonian").modules() if isinstance(m, MultigridConvolution)]
    assert max(len(m.groups) for m in found) > 1
