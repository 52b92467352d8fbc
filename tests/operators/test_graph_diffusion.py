"""Diffusion on graphs: the operator against its matrix, and its flows against the matrix exponential."""

import re
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from evolvent.errors import ConfigError, DataError, ShapeError
from evolvent.graphs import SparseMatrix, gaussian_affinity, largest_component, normalise, subgraph
from evolvent.operators import GraphDiffusion, UnstableDiffusionWarning
from evolvent.testing import check_operator

KINDS = ["row", "symmetric", "gcn"]


def graph(kind, count=30, dtype=torch.float64):
    W = gaussian_affinity(torch.randn(count, 3, dtype=dtype), min(6, count), sigma_neighbour=min(3, count - 1))
    return normalise(W.plus(W.T) if kind == "gcn" else W, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_the_contract_of_operators(kind):
    check_operator(GraphDiffusion(graph(kind)), (30, 2))
    check_operator(GraphDiffusion(graph(kind)), (30, 2, 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("time", [0.0, 0.3, 7.0, 100.0])
def test_the_exponential_flow_is_the_matrix_exponential(kind, time):
    diffusion, u = GraphDiffusion(graph(kind)), torch.randn(30, 4, dtype=torch.float64)
    expected = torch.linalg.matrix_exp(-time * diffusion.laplacian.dense()) @ u
    torch.testing.assert_close(diffusion.flow(u, time, "exponential"), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("method", "order"), [("explicit", 1), ("implicit", 1)])
def test_steps_converge_to_the_exponential_at_their_order(kind, method, order):
    diffusion, u = GraphDiffusion(graph(kind)), torch.randn(30, 2, dtype=torch.float64)
    exact = diffusion.flow(u, 2.0, "exponential")
    coarse, fine = ((diffusion.flow(u, 2.0, method, r) - exact).norm() for r in (64, 128))
    assert (coarse / fine).log2() == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["implicit", "exponential"])
def test_no_strength_is_too_large_for_implicit_and_exponential_flows(kind, method):
    diffusion, u = GraphDiffusion(graph(kind, dtype=torch.float32)), torch.randn(30, 2)
    found = diffusion.flow(u, 100.0, method)
    assert found.isfinite().all()
    assert found.abs().max() <= 2 * u.abs().max()
    assert diffusion(found).norm() < diffusion(u).norm()


@pytest.mark.parametrize("kind", ["ring", *KINDS])
@pytest.mark.parametrize("time", [1e4, 1e6, 1e8])
def test_long_implicit_steps_are_exact(kind, time, dtype):
    node = torch.arange(60)
    ring = SparseMatrix.from_entries(node, node.roll(1), torch.ones(60), (60, 60))
    weights = ring.plus(ring.T) if kind == "ring" else graph(kind, 60, torch.float32)
    dense = weights.dense().double()
    dense = dense if kind == "row" else (dense + dense.T) / 2
    u = torch.cat([torch.randn(60, 2), torch.ones(60, 1)], dim=1).to(dtype)
    expected = torch.linalg.solve(torch.eye(60) + time * (dense.sum(1).diag() - dense), u.double())
    found = GraphDiffusion(weights).flow(u, time, "implicit")
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)


def test_implicit_steps_beyond_float64_are_refused():
    u = torch.ones(30, 1)
    with pytest.raises(ConfigError, match="Take a shorter time") as said:
        GraphDiffusion(graph("row")).flow(u, 1e12, "implicit")
    assert len(str(said.value)) < 300
    torch.testing.assert_close(GraphDiffusion(graph("row")).flow(u, 1e9, "implicit", 10), u)


@given(st.sampled_from(KINDS), st.sampled_from(["explicit", "implicit", "exponential"]), st.integers(2, 12))
def test_gradients_are_flows_of_the_transpose(kind, method, count):
    diffusion = GraphDiffusion(graph(kind, count))
    u = torch.randn(count, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: diffusion.flow(v, 0.7, method, 2), u, atol=1e-6)


def test_flow_keeps_constants_and_an_undirected_one_keeps_the_mean():
    u = torch.randn(30, 2, dtype=torch.float64)
    for kind in KINDS:
        diffusion = GraphDiffusion(graph(kind))
        for method in ("explicit", "implicit", "exponential"):
            ones = diffusion.flow(torch.ones(30, 1, dtype=torch.float64), 3.0, method, 8)
            torch.testing.assert_close(ones, torch.ones(30, 1, dtype=torch.float64), rtol=1e-9, atol=1e-9)
            if kind != "row":
                torch.testing.assert_close(diffusion.flow(u, 3.0, method, 8).mean(0), u.mean(0), rtol=1e-8, atol=1e-9)


def test_an_unstable_step_is_refused_with_what_would_do():
    diffusion = GraphDiffusion(graph("gcn"))
    largest = diffusion.largest_stable_step
    assert largest == pytest.approx(2 / diffusion.largest_eigenvalue)
    diffusion.check_step(largest)
    with pytest.raises(ConfigError, match=r"at most .* is stable.*steps of.*implicit or exponential") as refused:
        diffusion.check_step(1.5 * largest, substeps=10)
    assert len(str(refused.value)) < 300
    assert f"{largest:.4g}" in str(refused.value)
    with pytest.warns(UnstableDiffusionWarning, match="grow"):
        diffusion.check_step(1.5 * largest, allow_unstable=True)


def test_a_step_that_is_only_perhaps_unstable_is_not_called_so():
    diffusion = GraphDiffusion(graph("row"))
    largest = diffusion.largest_stable_step
    with pytest.raises(ConfigError, match=r"on this directed graph: at most .* is surely stable") as refused:
        diffusion.check_step(1.01 * largest)
    assert len(str(refused.value)) < 300
    with pytest.warns(UnstableDiffusionWarning, match="largest surely stable one of this directed graph.* may grow"):
        diffusion.check_step(1.01 * largest, allow_unstable=True)


def test_proposition_2_rows_of_sum_one_allow_steps_up_to_one():
    diffusion = GraphDiffusion(graph("row"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        diffusion.check_step(1.0)
    u = torch.randn(30, 2, dtype=torch.float64)
    for _ in range(50):
        after = diffusion.flow(u, 1.0, "explicit")
        assert after.max() <= u.max() + 1e-12
        assert after.min() >= u.min() - 1e-12
        u = after


@pytest.mark.parametrize(("name", "expected"), [("cora", 5.780), ("citeseer", 4.212), ("pubmed", 5.622)])
def test_largest_eigenvalues_of_the_published_graphs(name, expected, data_folder):
    import numpy as np

    with np.load(data_folder / "planetoid" / f"{name}.npz", allow_pickle=False) as stored:
        edges, count = torch.from_numpy(stored["edges"].astype(np.int64)), len(stored["y"])
    forth, back = edges
    ones = torch.ones(2 * len(forth), dtype=torch.float64)
    whole = SparseMatrix.from_entries(torch.cat([forth, back]), torch.cat([back, forth]), ones, (count, count))
    W = subgraph(whole, largest_component(whole))
    diffusion = GraphDiffusion(normalise(W, "gcn"))
    assert diffusion.largest_eigenvalue == pytest.approx(expected, abs=6e-4)


def test_strange_calls():
    diffusion = GraphDiffusion(graph("row"))
    u = torch.randn(30, 1, dtype=torch.float64)
    with pytest.raises(KeyError, match="exponential"):
        diffusion.flow(u, 1.0, "exponentiel")
    with pytest.raises(ConfigError, match="time"):
        diffusion.flow(u, -1.0)
    with pytest.raises(ConfigError, match="substeps"):
        diffusion.flow(u, 1.0, substeps=0)
    with pytest.raises(ShapeError, match="30 nodes"):
        diffusion.flow(u[:7], 1.0)
    with pytest.raises(ShapeError, match="30 nodes"):
        diffusion.solve(u[:7], 1.0)
    assert "30 x 30" in repr(diffusion)


def test_an_unstable_flow_is_refused_with_a_number_of_steps_that_do():
    diffusion, u = GraphDiffusion(graph("gcn")), torch.randn(30, 2, dtype=torch.float64)
    with pytest.raises(ConfigError, match=r"take \d+ steps .*exponential") as caught:
        diffusion.flow(u, 100.0, "explicit", 20)
    enough = int(str(caught.value).split("take ")[1].split()[0])
    assert diffusion.flow(u, 100.0, "explicit", enough).abs().max() < 10
    with pytest.warns(UnstableDiffusionWarning):
        assert diffusion.flow(u, 100.0, "explicit", 20, allow_unstable=True).abs().max() > 1e3


@given(st.floats(1.01, 9.0), st.integers(1, 12))
def test_the_steps_that_a_refusal_advises_are_stable(factor, substeps):
    diffusion = GraphDiffusion(graph("gcn"))
    step = factor * diffusion.largest_stable_step
    with pytest.raises(ConfigError) as refused:
        diffusion.check_step(step, substeps)
    enough, less = re.search(r"take (\d+) steps of ([\d.e-]+\d)", str(refused.value)).groups()
    diffusion.check_step(float(less), int(enough))


@pytest.mark.parametrize("weights", [torch.ones(3, 3), csr_array(torch.ones(3, 3).numpy())])
def test_matrices_of_other_kinds_are_refused(weights):
    with pytest.raises(ShapeError, match=r"a graph is a SparseMatrix .*from_scipy") as refused:
        GraphDiffusion(weights)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("weight", [-1.0, float("nan")])
def test_weights_that_no_graph_has_are_refused(weight):
    with pytest.raises(DataError, match="at least 0"):
        GraphDiffusion(SparseMatrix.from_dense(torch.tensor([[0.0, weight], [weight, 0.0]])))


@pytest.mark.parametrize("method", ["explicit", "implicit", "exponential"])
def test_whole_numbers_do_not_diffuse(method):
    with pytest.raises(ShapeError, match=r"as_tensor\(u\).float\(\)"):
        GraphDiffusion(graph("row")).flow(torch.ones(30, 2, dtype=torch.int64), 0.5, method)


@pytest.mark.parametrize("method", ["explicit", "implicit", "exponential"])
def test_complex_features_diffuse_by_their_parts(method):
    diffusion, u = GraphDiffusion(graph("row")), torch.randn(30, 2, dtype=torch.complex128)
    parts = torch.complex(diffusion.flow(u.real, 0.5, method), diffusion.flow(u.imag, 0.5, method))
    torch.testing.assert_close(diffusion.flow(u, 0.5, method), parts)
    torch.testing.assert_close(diffusion.flow(u.conj(), 0.5, method), parts.conj())
    u.requires_grad_()
    (gradient,) = torch.autograd.grad((diffusion.flow(u, 0.5, method).conj() * parts).sum().real, u)
    assert gradient.isfinite().all()


def test_the_laplacian_of_whole_numbers_is_refused():
    diffusion, u = GraphDiffusion(graph("row")), torch.ones(30, 2, dtype=torch.int64)
    for act in (diffusion, diffusion.adjoint):
        for wrong in (u, u.tolist()):
            with pytest.raises(ShapeError, match=r"as_tensor\(u\).float\(\)"):
                act(wrong)
