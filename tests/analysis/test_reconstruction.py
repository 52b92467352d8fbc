"""Reversible evolutions find their way back up to rounding."""

import pytest
import torch

from evolvent.analysis import measure_reconstruction
from evolvent.dynamics import Hamiltonian, SecondOrder
from evolvent.errors import ConfigError
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, Leapfrog, Verlet


def flows():
    torch.manual_seed(0)
    yield Evolution([Hamiltonian(3) for _ in range(10)], Verlet(), step_size=0.1), torch.randn(2, 6, 8, 8)
    yield Evolution(SecondOrder(3), Leapfrog(), steps=10, step_size=0.1), torch.randn(2, 3, 8, 8)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float32, 1e-6), (torch.float64, 1e-15)])
def test_error_is_of_the_size_of_rounding(number, dtype, rounding):
    evolution, u0 = list(flows())[number]
    found = measure_reconstruction(evolution, u0, dtype)
    assert found.dtype in str(dtype)
    assert len(found.errors) == len(found.times) == 11
    assert found.errors[-1] == 0.0  # where the way back begins
    assert 0 < max(found.errors) < 10 * rounding
    assert next(evolution.parameters()).dtype == torch.float32


def test_pairs_and_methods_that_cannot_go_back():
    pair = (torch.randn(1, 3, 4, 4), torch.randn(1, 3, 4, 4))
    evolution = Evolution([Hamiltonian(3)], Verlet(), step_size=0.1)
    assert max(measure_reconstruction(evolution, pair).errors) < 1e-14
    with pytest.raises(ConfigError, match="cannot undo"):
        measure_reconstruction(Evolution([Hamiltonian(3)], Euler()), pair)
