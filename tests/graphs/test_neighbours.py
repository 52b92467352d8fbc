"""Neighbours, whichever way they are searched."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.errors import ConfigError, DataError, ShapeError
from evolvent.graphs import nearest_neighbours

SEARCHES = ["blocks", "tree", pytest.param("faiss", marks=pytest.mark.filterwarnings("ignore"))]


@pytest.fixture(params=SEARCHES)
def search(request):
    if request.param == "faiss":
        pytest.importorskip("faiss")
    return request.param


@given(st.integers(2, 30), st.integers(1, 5), st.booleans())
def test_distances_are_the_smallest_ones(count, coordinates, include_self):
    x = torch.randn(count, coordinates, dtype=torch.float64)
    k = min(4, count - (not include_self))
    full = torch.cdist(x, x).square()
    full.fill_diagonal_(-1 if include_self else float("inf"))
    expected = full.sort(dim=1).values[:, :k].clamp_min(0)
    for search in ("blocks", "tree"):
        found = nearest_neighbours(x, k, include_self=include_self, search=search)
        torch.testing.assert_close(found.squared_distances, expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close((x[found.indices] - x[:, None]).square().sum(2), expected, rtol=1e-9, atol=1e-9)


def test_points_at_one_place_are_neighbours_and_oneself_is_first(search):
    x = torch.zeros(6, 2)
    found = nearest_neighbours(x, 3, include_self=True, search=search)
    assert found.indices[:, 0].tolist() == list(range(6))
    others = nearest_neighbours(x, 3, search=search)
    assert not (others.indices == torch.arange(6)[:, None]).any()
    assert others.squared_distances.max() == 0
    assert all(len(set(row)) == 3 for row in others.indices.tolist())


def test_far_from_the_origin_digits_are_kept(search):
    x = torch.randn(50, 3)
    near, far = nearest_neighbours(x, 4, search=search), nearest_neighbours((x + 100).contiguous(), 4, search=search)
    torch.testing.assert_close(near.squared_distances, far.squared_distances, rtol=1e-3, atol=1e-4)


def test_large_sets_choose_their_search_and_report_progress():
    shares = []
    found = nearest_neighbours(torch.randn(5000, 2), 2, tell=shares.append)
    assert found.indices.shape == (5000, 2)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert nearest_neighbours(torch.randn(2100, 12), 2).indices.shape == (2100, 2)


@pytest.mark.parametrize(
    ("x", "k", "error", "message"),
    [
        (torch.randn(3, 2), 3, ConfigError, "2 neighbours each"),
        (torch.randn(3, 2), 0, ConfigError, "k must be a whole number"),
        (torch.tensor([[0.0], [float("nan")], [1.0]]), 1, DataError, "row 1"),
        (torch.randn(4), 1, ShapeError, r"\(4,\)"),
        (torch.ones(4, 2, dtype=torch.int64), 1, ShapeError, "int64"),
    ],
)
def test_bad_input(x, k, error, message):
    with pytest.raises(error, match=message):
        nearest_neighbours(x, k)


@pytest.mark.parametrize("coordinates", [1, 2])
def test_numbers_whose_distances_overflow_are_refused(coordinates):
    with pytest.raises(DataError, match=r"so must their squares"):
        nearest_neighbours(torch.full((5, coordinates), 1e200, dtype=torch.float64), 2)
