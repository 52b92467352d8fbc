"""Gaussian weights: sparse and dense forms, and the meaning of self, sigma and n_top."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.errors import ConfigError, DataError, ShapeError
from evolvent.graphs import dense_affinity, gaussian_affinity


@given(st.integers(4, 25), st.integers(1, 4), st.booleans(), st.booleans())
def test_sparse_and_dense_agree_with_the_definition(count, coordinates, include_self, global_sigma):
    x = torch.randn(count, coordinates, dtype=torch.float64)
    scale = {"sigma": 0.7} if global_sigma else {"sigma_neighbour": 2}
    n_top = 3
    found = gaussian_affinity(x, n_top, include_self=include_self, **scale).dense()
    torch.testing.assert_close(found, dense_affinity(x, n_top, include_self=include_self, **scale))
    squares = torch.cdist(x, x).square()
    sigma = 0.7 if global_sigma else squares.fill_diagonal_(0).sort(dim=1).values[:, 2:3].sqrt()
    expected = torch.exp(-squares / sigma**2)
    if not include_self:
        expected.fill_diagonal_(0)
    least = expected.sort(dim=1, descending=True).values[:, n_top - 1 : n_top]
    torch.testing.assert_close(found, torch.where(expected >= least, expected, 0), rtol=1e-8, atol=1e-8)


def test_self_counts_among_the_entries_or_not():
    x = torch.randn(10, 2)
    with_self, without = gaussian_affinity(x, 4, sigma=1.0), gaussian_affinity(x, 4, sigma=1.0, include_self=False)
    assert with_self.starts.diff().tolist() == without.starts.diff().tolist() == [4] * 10
    assert with_self.diagonal().tolist() == [1.0] * 10
    assert without.diagonal().tolist() == [0.0] * 10


def test_points_at_one_place_have_weight_one_and_others_none():
    x = torch.cat([torch.zeros(4, 2), torch.ones(4, 2) + torch.randn(4, 2)])
    for found in (gaussian_affinity(x, 6, sigma_neighbour=3).dense(), dense_affinity(x, 6, sigma_neighbour=3)):
        assert found.isfinite().all()
        assert found[0, :4].tolist() == [1.0] * 4
        assert found[0, 4:].max() == 0


def test_rounding_does_not_tell_points_at_one_place_apart():
    x = 3 * torch.randn(10, 64).repeat(3, 1) + 100
    dense, sparse = dense_affinity(x, 6, sigma_neighbour=1), gaussian_affinity(x, 6, sigma_neighbour=1).dense()
    assert dense.sum(dim=1).tolist() == [3.0] * 30
    torch.testing.assert_close(dense, sparse, rtol=0, atol=0)


def test_near_points_are_not_taken_for_one():
    x = torch.randn(20, 64)
    pairs = torch.cat([x, x + 1e-3 * torch.randn(20, 64)])
    exact = gaussian_affinity(pairs.double(), 6, sigma_neighbour=1).dense()
    torch.testing.assert_close(dense_affinity(pairs, 6, sigma_neighbour=1).double(), exact, rtol=0, atol=1e-4)


def test_batches_are_sets_of_their_own():
    x = torch.randn(3, 2, 8, 4)
    batch = dense_affinity(x, 4, sigma_neighbour=2)
    torch.testing.assert_close(batch[1, 1], dense_affinity(x[1, 1], 4, sigma_neighbour=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_top": 9, "sigma": 1.0, "include_self": False}, "9 neighbours"),
        ({"n_top": 3, "sigma_neighbour": 8}, "8 neighbours"),
        ({"n_top": 1, "sigma": 1.0}, "n_top"),
        ({"n_top": 3}, "either sigma or sigma_neighbour"),
        ({"n_top": 3, "sigma": 1.0, "sigma_neighbour": 2}, "either"),
        ({"n_top": 3, "sigma": 0.0}, "sigma must be positive"),
        ({"n_top": 3, "sigma_neighbour": 0}, "sigma_neighbour"),
    ],
)
def test_bad_input(options, message):
    for affinity in (gaussian_affinity, dense_affinity):
        with pytest.raises(ConfigError, match=message):
            affinity(torch.randn(8, 2), **options)


def test_no_points_have_no_neighbours():
    with pytest.raises(ConfigError, match="0 points have 0"):
        gaussian_affinity(torch.zeros(0, 2), 3, sigma=1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_dense_weights_of_points_that_are_no_numbers_are_refused(value):
    x = torch.randn(2, 9, 3)
    x[1, 4, 0] = value
    with pytest.raises(DataError, match="points must be finite"):
        dense_affinity(x, 3, sigma_neighbour=2)


@pytest.mark.parametrize("x", [torch.zeros(9), torch.zeros(9, 2, dtype=torch.int64), torch.zeros(9, 2).numpy()])
def test_weights_are_of_tables_of_numbers(x):
    for affinity in (gaussian_affinity, dense_affinity):
        with pytest.raises(ShapeError, match="points are a tensor of floating-point numbers"):
            affinity(x, 3, sigma=1.0)
