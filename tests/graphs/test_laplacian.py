"""Normalisations, Laplacians, eigenvalues and components."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.errors import ConfigError, DataError, ShapeError
from evolvent.graphs import (
    SparseMatrix,
    conjugate_gradients,
    connected_components,
    connectivity,
    eigenvalue_bound,
    gaussian_affinity,
    laplacian,
    largest_component,
    largest_eigenvalue,
    largest_stable_step,
    normalise,
    smallest_eigenvalues,
    subgraph,
    undirected,
)


def weights(count, symmetric, share=0.3):
    full = torch.where(torch.rand(count, count) < share, torch.rand(count, count), 0).double()
    return full + full.T if symmetric else full


@given(st.integers(1, 12), st.booleans(), st.sampled_from(["row", "symmetric", "gcn"]))
def test_sparse_and_dense_normalisations_agree(count, symmetric, kind):
    full = weights(count, symmetric or kind == "gcn")
    sparse = SparseMatrix.from_dense(full)
    found = normalise(sparse, kind)
    torch.testing.assert_close(found.dense(), normalise(full, kind))
    torch.testing.assert_close(laplacian(found).dense(), laplacian(normalise(full, kind)))
    torch.testing.assert_close(laplacian(found).row_sums(), torch.zeros(count, dtype=torch.float64), atol=1e-12, rtol=0)


def test_what_each_normalisation_is():
    full = weights(9, symmetric=True) + 0.1
    degree = full.sum(1)
    torch.testing.assert_close(normalise(full, "row").sum(1), torch.ones(9, dtype=torch.float64))
    torch.testing.assert_close(normalise(full, "symmetric"), full / (degree[:, None] * degree).sqrt())
    loops = full + torch.eye(9)
    degree = loops.sum(1)
    torch.testing.assert_close(normalise(full, "gcn"), loops / (degree[:, None] * degree).sqrt())
    torch.testing.assert_close(normalise(torch.stack([full, 2 * full]), "row")[1], normalise(full, "row"))


def test_nodes_without_edges_stay_where_they_are():
    full = torch.zeros(3, 3, dtype=torch.float64)
    full[0, 1] = full[1, 0] = 2
    for kind in ("row", "symmetric", "gcn"):
        found = laplacian(normalise(SparseMatrix.from_dense(full), kind)).dense()
        assert found.isfinite().all()
        assert found[2].tolist() == [0, 0, 0]


def test_undirected_takes_the_larger_weight():
    full = weights(8, symmetric=False)
    torch.testing.assert_close(undirected(SparseMatrix.from_dense(full)).dense(), torch.maximum(full, full.T))
    torch.testing.assert_close(undirected(full), torch.maximum(full, full.T))


@pytest.mark.parametrize(
    "takes",
    [
        connected_components, largest_eigenvalue, largest_stable_step, eigenvalue_bound,
        lambda weights: subgraph(weights, torch.arange(2)),
    ],
)  # fmt: skip
def test_a_dense_graph_is_refused_where_only_sparse_ones_are_taken(takes):
    with pytest.raises(ShapeError, match=r"a graph is a SparseMatrix .*from_dense"):
        takes(torch.eye(3))


@pytest.mark.parametrize("takes", [laplacian, undirected, lambda weights: normalise(weights, "row")])
def test_arrays_are_refused(takes):
    with pytest.raises(ShapeError, match=r"a SparseMatrix or a tensor, got float64 of shape \(3, 3\)"):
        takes(torch.eye(3, dtype=torch.float64).numpy())


@pytest.mark.parametrize("form", [lambda m: m, SparseMatrix.from_dense])
def test_the_laplacian_is_of_a_square_matrix(form):
    with pytest.raises(ShapeError, match="square"):
        laplacian(form(torch.ones(3, 4)))


@pytest.mark.parametrize(
    ("matrix", "kind", "error", "message"),
    [
        (torch.tensor([[0.0, 1.0], [0.0, 0.0]]), "gcn", DataError, "undirected"),
        (torch.tensor([[0.0, -1.0], [-1.0, 0.0]]), "row", DataError, "negative"),
        (torch.tensor([[0.0, float("nan")], [1.0, 0.0]]), "row", DataError, "NaN"),
        (torch.zeros(2, 3), "row", ShapeError, "square"),
        (torch.zeros(2, 2), "rows", KeyError, "row"),
    ],
)
def test_bad_input(matrix, kind, error, message):
    with pytest.raises(error, match=message):
        normalise(matrix, kind)
    if error is not ShapeError and not matrix.isnan().any():
        with pytest.raises(error, match=message):
            normalise(SparseMatrix.from_dense(matrix), kind)


@pytest.mark.parametrize("count", [1, 5, 60])
def test_eigenvalues_are_those_of_the_dense_matrix(count):
    L = laplacian(SparseMatrix.from_dense(weights(count, symmetric=True)))
    expected = torch.linalg.eigvalsh(L.dense())
    assert largest_eigenvalue(L) == pytest.approx(expected[-1].item(), rel=1e-8, abs=1e-12)
    assert smallest_eigenvalues(L, min(3, count)) == pytest.approx(expected[:3].tolist(), rel=1e-6, abs=1e-8)
    assert eigenvalue_bound(L) >= largest_eigenvalue(L) - 1e-12
    assert largest_stable_step(L) == pytest.approx(2 / expected[-1].item() if count > 1 else math.inf)


@pytest.mark.parametrize("count", [0, 1, 40])
def test_graphs_without_edges_have_eigenvalues_of_zero(count):
    empty = SparseMatrix.from_dense(torch.zeros(count, count))
    for L in (empty, laplacian(empty)):
        assert largest_eigenvalue(L) == 0
        assert largest_stable_step(L) == math.inf
        assert smallest_eigenvalues(L, 3) == [0] * min(count, 3)
    with pytest.raises(ConfigError, match="count must be a whole number of at least 1"):
        smallest_eigenvalues(empty, 0)


def test_a_directed_graph_has_a_stable_step_but_no_lanczos():
    L = laplacian(normalise(gaussian_affinity(torch.randn(40, 2), 5, sigma=0.5), "row"))
    with pytest.raises(ConfigError, match="symmetric"):
        largest_eigenvalue(L)
    step = largest_stable_step(L)
    averages = torch.eye(40) - step * L.dense()
    assert averages.min() >= -1e-6
    torch.testing.assert_close(averages.sum(1), torch.ones(40))


def test_components_and_the_largest_one():
    full = torch.zeros(6, 6)
    full[0, 3] = full[3, 5] = full[1, 2] = 1
    graph = SparseMatrix.from_dense(full)
    found = connected_components(graph)
    assert found[0] == found[3] == found[5]
    assert found[1] == found[2] != found[0]
    assert len(found.unique()) == 3
    nodes = largest_component(graph)
    assert nodes.tolist() == [0, 3, 5]
    assert largest_component(SparseMatrix.from_dense(torch.zeros(0, 0))).tolist() == []
    assert subgraph(graph, nodes).dense().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_weights_of_zero_do_not_connect():
    graph = gaussian_affinity(torch.tensor([[0.0], [0.1], [40.0], [40.1]]), 3, sigma=0.5)
    assert len(graph.columns) == 12
    assert connected_components(graph).tolist() == [0, 0, 1, 1]
    assert connectivity(graph, torch.tensor([0, 0, 1, 1])).holds
    assert connectivity(graph, torch.tensor([0, 0, 0, 1])).components == [2, 1]
    assert (graph.values == 0).sum() == 4


def test_connectivity_names_what_the_theory_misses():
    x = torch.cat([torch.randn(30, 2) * 0.1, torch.randn(30, 2) * 0.1 + 5])
    subclasses = torch.arange(2).repeat_interleave(30)
    good = connectivity(gaussian_affinity(x, 8, sigma=1.0), subclasses)
    assert good.holds
    assert good.neighbours_needed == pytest.approx(math.log(30))
    assert not connectivity(gaussian_affinity(x, 2, sigma=1.0), subclasses).holds
    crossing = connectivity(gaussian_affinity(x, 40, sigma=1e3), subclasses)
    assert crossing.crossing_edges > 0
    with pytest.raises(ShapeError, match="60 nodes"):
        connectivity(gaussian_affinity(x, 8, sigma=1.0), subclasses[:3])


@given(st.integers(1, 20), st.integers(1, 4))
def test_conjugate_gradients_solve_all_columns(count, columns):
    half = torch.randn(count, count, dtype=torch.float64)
    A = half @ half.T + torch.eye(count)
    b = torch.randn(count, columns, dtype=torch.float64)
    b[:, 0] = 0
    shares = []
    x = conjugate_gradients(A.matmul, b, A.diagonal(), tell=shares.append)
    torch.testing.assert_close(A @ x, b, rtol=1e-8, atol=1e-8)
    assert all(0 <= share <= 1 for share in shares)
