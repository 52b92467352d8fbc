"""Heat that spreads from labels, against its equation."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.errors import ConfigError, DataError, ShapeError
from evolvent.estimators import PointGraph, label_flow
from evolvent.graphs import SparseMatrix, connected_components


def path(count, weights=None):
    values = torch.ones(count - 1, dtype=torch.float64) if weights is None else weights
    return SparseMatrix.from_dense(torch.diag(values, 1) + torch.diag(values, -1))


def at(places, count, dtype=torch.float64):
    """A label of its own class at each place."""
    labels = torch.zeros(count, len(places), dtype=dtype)
    labels[list(places), range(len(places))] = 1
    return labels


def random_graph(seed, count, density=0.4):
    generator = torch.Generator().manual_seed(seed)
    there = torch.rand(count, count, generator=generator) < density
    half = (torch.rand(count, count, generator=generator, dtype=torch.float64) * there).triu(1)
    return SparseMatrix.from_dense(half + half.T)


@given(st.integers(0, 10**6), st.floats(0.1, 100))
def test_without_rounds_it_is_an_implicit_step_with_classes_divided_by_their_sums(seed, time):
    graph = random_graph(seed, 12)
    if int(connected_components(graph).max()) > 0:
        return
    dense, labels = graph.dense(), at((0, 1, 2), 12)
    degrees = dense.sum(1).diag()
    heat = torch.linalg.solve(degrees + time * (degrees - dense), labels)
    heat = heat / heat.sum(0)
    found = label_flow(graph, labels, time=time, rounds=0)
    if bool((heat.sum(1) > 0.05 * heat.sum(1).mean()).all()):  # else heat has not reached all nodes
        torch.testing.assert_close(found, heat / heat.sum(1, keepdim=True), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("time", [1e4, 1e6, 1e9])
def test_long_times_are_as_exact_as_short_ones(time):
    graph, labels = random_graph(1, 40), at((0, 1, 2), 40)
    dense = graph.dense()
    degrees = dense.sum(1).diag()
    heat = torch.linalg.solve(degrees + time * (degrees - dense), labels)
    heat = heat / heat.sum(0)
    found = label_flow(graph.to(dtype=torch.float32), labels, time=time, rounds=0)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), heat / heat.sum(1, keepdim=True), rtol=1e-5, atol=1e-6)
    with pytest.raises(ConfigError, match="shorter time"):
        label_flow(graph, labels, time=1e12)


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.bool])
def test_labels_of_any_kind_are_taken(kind):
    graph = random_graph(1, 12)
    found = label_flow(graph, at((0, 1), 12).to(kind))
    torch.testing.assert_close(found, label_flow(graph, at((0, 1), 12)))


@pytest.mark.parametrize(
    ("changes", "error", "complaint"),
    [
        ({"weights": path(12).dense()}, ShapeError, "SparseMatrix"),
        ({"weights": SparseMatrix.from_dense(torch.ones(12, 12).triu())}, DataError, "directed"),
        ({"weights": path(12, -torch.ones(11))}, DataError, "at least 0"),
        ({"labels": at((0, 1), 6)}, ShapeError, r"\(12, classes\)"),
        ({"labels": torch.zeros(12, dtype=torch.int64)}, ShapeError, r"\(12, classes\)"),
        ({"labels": torch.zeros(12, 2)}, DataError, "all 0"),
        ({"labels": torch.full((12, 2), -1.0)}, DataError, "negative"),
        ({"time": -1.0}, ConfigError, "time"),
        ({"time": float("nan")}, ConfigError, "time"),
        ({"rounds": -1}, ConfigError, "rounds"),
        ({"own_labels": -1.0}, ConfigError, "own_labels"),
    ],
)
def test_what_cannot_spread_is_refused(changes, error, complaint):
    with pytest.raises(error, match=complaint) as said:
        label_flow(**{"weights": path(12), "labels": at((0, 11), 12)} | changes)
    assert len(str(said.value)) < 300


@given(st.integers(0, 10**6))
def test_a_node_has_a_class_if_and_only_if_its_component_has_a_label(seed):
    graph = random_graph(seed, 30, density=0.05)
    found, component = label_flow(graph, at((0, 1), 30)), connected_components(graph)
    labelled = (component == component[0]) | (component == component[1])
    assert torch.equal(found.any(dim=1), labelled)
    torch.testing.assert_close(found.sum(dim=1), labelled.double())


@pytest.mark.parametrize("rounds", [0, 5])
def test_heat_goes_on_until_all_nodes_are_reached(rounds, dtype):
    count = 600  # far more than the square root of the time
    graph = path(count).to(dtype=dtype)
    found = label_flow(graph, at((0, count - 1), count, dtype), rounds=rounds).argmax(dim=1)
    assert found.diff().abs().sum() == 1  # one boundary
    assert abs(found.float().mean() - 0.5) < 0.05


def test_heat_passes_edges_of_hardly_any_weight():
    weights = torch.ones(39, dtype=torch.float64)
    weights[[9, 29]] = 1e-9
    found = label_flow(path(40, weights), at((4, 35), 40)).argmax(dim=1)
    assert found[:10].tolist() == [0] * 10
    assert found[30:].tolist() == [1] * 10


def test_order_of_nodes_in_memory_does_not_matter(monkeypatch):
    graph, labels = random_graph(6, 40), at((3, 30), 40)
    plain = label_flow(graph, labels)
    monkeypatch.setattr("evolvent.estimators.competition._IN_CACHE", 10)
    torch.testing.assert_close(label_flow(graph, labels), plain, rtol=1e-3, atol=1e-4)


def test_loops_have_no_effect():
    graph, labels = random_graph(3, 15), at((0, 1), 15)
    with_loops = graph.plus_diagonal(torch.rand(15, dtype=torch.float64))
    torch.testing.assert_close(label_flow(with_loops, labels), label_flow(graph, labels))


def test_classes_change_places_with_their_labels():
    graph, labels = random_graph(4, 15), at((0, 1, 2), 15)
    turned = label_flow(graph, labels.roll(1, dims=1)).roll(-1, dims=1)
    torch.testing.assert_close(turned, label_flow(graph, labels), rtol=1e-5, atol=1e-6)


def test_many_labels_outweigh_what_nodes_have_found():
    graph = random_graph(5, 40)
    labels = torch.nn.functional.one_hot(torch.arange(40) % 2, 2).double()
    plain, rounds = (label_flow(graph, 50 * labels, rounds=r) for r in (0, 5))
    assert (plain - rounds).abs().max() < 0.01


def test_progress_is_told_for_each_round():
    told = []
    label_flow(path(30), at((0, 29), 30), rounds=2, stage=lambda name: told.append(name) or (lambda share: None))
    assert told[0] == "labels spread"
    assert told[-1].startswith("classes compete")


@pytest.mark.parametrize("neighbours", [1, 3, 100])
def test_graph_of_points_is_symmetric_without_loops(neighbours):
    weights = PointGraph(torch.randn(50, 3).numpy(), neighbours).weights
    assert weights.is_symmetric
    assert not weights.diagonal().any()
    assert weights.values.min() >= 0.5 * torch.exp(torch.tensor(-8.0))
    assert (weights.starts.diff() >= min(neighbours, 49)).all()


def test_weights_are_those_of_the_equation():
    x = torch.randn(20, 2, dtype=torch.float64)
    squares = torch.cdist(x, x).square()
    order = squares.argsort(dim=1)
    scale = squares.sort(dim=1).values[:, 4].sqrt()
    full = torch.exp(-4 * (squares / (scale[:, None] * scale)).clamp(max=2))
    kept = torch.zeros_like(full).scatter(1, order[:, 1:5], 1)
    expected = full * (kept + kept.T) / 2
    torch.testing.assert_close(PointGraph(x.numpy(), 4).weights.dense().double(), expected, rtol=1e-5, atol=1e-7)
