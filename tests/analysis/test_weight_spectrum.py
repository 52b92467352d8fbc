"""Eigenvalues of maps: against dense matrices, and the shares that figures 7 and 8 of Bohn et al. print."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

import evolvent as ev
from evolvent._core.errors import ShapeError
from evolvent.analysis import map_spectra, nonlocal_spectra, weight_spectrum


def dense(weight: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The matrix of a periodic convolution, column by column."""
    channels, reach = weight.shape[0], weight.shape[2] // 2
    units = torch.eye(channels * height * width, dtype=weight.dtype).unflatten(1, (channels, height, width))
    padded = F.pad(units, (reach,) * 4, mode="circular")
    return F.conv2d(padded, weight).flatten(1).mT


@given(
    channels=st.integers(1, 3),
    reach=st.integers(0, 2),
    height=st.integers(4, 5),
    width=st.integers(4, 6),
    seed=st.integers(0, 999),
)
def test_the_symbol_gives_the_eigenvalues_of_the_dense_matrix(channels, reach, height, width, seed):
    shape, generator = (channels, channels, 2 * reach + 1, 2 * reach + 1), torch.Generator().manual_seed(seed)
    weight = torch.randn(shape, dtype=torch.float64, generator=generator)
    found, matrix = weight_spectrum(weight, (height, width)), dense(weight, height, width)
    repeats = 1 if reach else height * width  # a 1x1 map is taken once
    exact = torch.linalg.eigvals(matrix).real.sort().values
    assert_close(found.real_parts.repeat_interleave(repeats), exact, rtol=1e-7, atol=1e-7)
    exact = torch.linalg.eigvalsh((matrix + matrix.mT) / 2)
    assert_close(found.symmetric.repeat_interleave(repeats), exact, rtol=1e-10, atol=1e-10)


@given(size=st.integers(1, 12), seed=st.integers(0, 999))
def test_a_matrix_and_its_1x1_convolution_are_the_same(size, seed):
    matrix = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    found = weight_spectrum(matrix)
    assert_close(found.real_parts, torch.linalg.eigvals(matrix).real.sort().values)
    assert_close(found.symmetric, torch.linalg.eigvalsh((matrix + matrix.mT) / 2))
    assert_close(weight_spectrum(matrix[:, :, None, None], (7, 7)).real_parts, found.real_parts)
    assert found.symmetric[0] <= found.real_parts[0] + 1e-9  # the field of values holds all eigenvalues
    assert found.real_parts[-1] <= found.symmetric[-1] + 1e-9


def test_shares_of_positive_eigenvalues():
    found = weight_spectrum(torch.diag(torch.tensor([-2.0, 0.0, 1.0, 3.0])))
    assert (found.positive_share, found.positive_share_symmetric) == (0.5, 0.5)
    turning = weight_spectrum(torch.tensor([[0.1, 5.0], [-1.0, 0.1]]))
    assert (turning.positive_share, turning.positive_share_symmetric) == (1.0, 0.5)


def test_an_antisymmetric_map_neither_amplifies_nor_damps():
    matrix = torch.randn(6, 6, dtype=torch.float64)
    found = weight_spectrum(matrix - matrix.mT)
    assert_close(found.symmetric, torch.zeros(6, dtype=torch.float64))


def test_a_map_that_is_not_finite_has_no_shares():
    found = weight_spectrum(torch.tensor([[1.0, float("nan")], [0.0, 1.0]]))
    assert math.isnan(found.positive_share)
    assert math.isnan(found.positive_share_symmetric)
    assert found.real_parts.shape == (2,)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 1, 1), (2, 2, 2, 2), (4,)])
def test_what_has_no_eigenvalues_is_refused(shape):
    with pytest.raises(ShapeError, match="square matrix"):
        weight_spectrum(torch.zeros(shape))


def test_all_stages_of_all_nonlocal_blocks():
    model = ev.create_model("nonlocal_hamiltonian", channels=(4, 6), blocks=3, image_size=8, stages=3)
    found = nonlocal_spectra(model)
    assert list(found) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    weight = model.get_parameter("body.1.outer.1.0.weight")[:, :, 0, 0].detach().double()
    assert_close(found[1, 2].real_parts, torch.linalg.eigvals(weight).real.sort().values)
    assert not nonlocal_spectra(ev.create_model("hamiltonian", channels=(4,), blocks=1, image_size=8))


def test_maps_of_a_network_are_taken_on_their_grids():
    model = ev.create_model("nonlocal_hamiltonian", channels=(4, 8), blocks=3, image_size=(8, 12)).train()
    found = map_spectra(model, torch.zeros(1, 3, 8, 12))
    assert model.training
    convolutions = [one for one in found if one.kind == "convolution"]
    assert [one.grid for one in convolutions] == [(8, 12)] * 6 + [(4, 6)] * 6
    assert convolutions[0].count == 2 * 8 * 12
    assert [one.name for one in found if one.kind == "nonlocal"] == [f"block {b}, K{k}" for b in (1, 2) for k in (1, 2)]
    for one in found:
        assert list(one.real_parts) == sorted(one.real_parts)
        assert 0 <= one.positive_share <= 1
