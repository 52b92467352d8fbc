"""Graphs with classes: what is refused, components, splits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.data import GraphData
from evolvent.data.graph_set import NodeSplit, graph_of_edges
from evolvent.errors import ConfigError, DataError
from evolvent.graphs import SparseMatrix, connected_components


def ring(nodes=12, classes=2, **changes):
    edges = np.array([range(nodes), [(i + 1) % nodes for i in range(nodes)]])
    values = {
        "graph": graph_of_edges("ring", edges, nodes),
        "features": SparseMatrix.from_dense(torch.arange(nodes * 3.0).view(nodes, 3)),
        "labels": torch.arange(nodes) % classes,
    } | changes
    return GraphData("ring", classes=tuple("abcdefgh"[:classes]), **values)


def test_edges_are_symmetric_counted_once_and_without_loops():
    graph = graph_of_edges("g", np.array([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]]), 4)
    assert graph.dense().tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("edges", "complaint"), [(np.zeros((3, 2)), r"pairs of nodes"), (np.array([[0], [9]]), r"nodes 0 \.\.\. 3")]
)
def test_wrong_edges(edges, complaint):
    with pytest.raises(DataError, match=complaint):
        graph_of_edges("g", edges, 4)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"graph": SparseMatrix.from_dense(torch.eye(12).roll(1, 0))}, "directed"),
        ({"graph": SparseMatrix.from_dense(2 * (torch.ones(12, 12) - torch.eye(12)))}, "weights or loops"),
        ({"graph": SparseMatrix.from_dense(torch.eye(12))}, "weights or loops"),
        ({"labels": torch.arange(12) % 3}, r"classes 0 \.\.\. 1"),
        ({"labels": torch.zeros(12, dtype=torch.int64)}, r"classes 0 \.\.\. 1"),
        ({"labels": torch.zeros(5, dtype=torch.int64)}, "as many features and labels"),
        ({"features": SparseMatrix.from_dense(torch.full((12, 3), torch.nan))}, "NaN"),
    ],
)
def test_wrong_graphs_are_refused(changes, complaint):
    with pytest.raises(DataError, match=complaint) as error:
        ring(**changes)
    assert len(str(error.value)) < 300


def test_rows_are_normalised_and_empty_ones_stay():
    features = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]]).repeat(6, 1)
    found = ring(features=SparseMatrix.from_dense(features)).row_normalised().features.dense()
    torch.testing.assert_close(found[:2], torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]))


@given(st.integers(0, 10_000))
def test_random_splits_are_complete_disjoint_and_follow_the_seed(seed):
    data = ring(30, 3, labels=torch.tensor([-1, *[0, 1, 2] * 9, 0, 1]))
    split, again = (data.random_split(seed, train=2, validation=3) for _ in range(2))
    parts = (split.train, split.validation, split.test)
    every = torch.cat(parts)
    assert every.unique().tolist() == list(range(1, 30))
    assert len(every) == 29
    assert data.labels[split.train].bincount().tolist() == [2, 2, 2]
    assert data.labels[split.validation].bincount().tolist() == [3, 3, 3]
    assert all(map(torch.equal, parts, (again.train, again.validation, again.test)))


def test_seeds_give_different_splits():
    assert len({tuple(ring(30).random_split(seed, 3, 3).train.tolist()) for seed in range(20)}) > 15


def test_a_class_with_too_few_nodes():
    with pytest.raises(DataError, match="class a has 6 nodes, but 4 for training and 3"):
        ring().random_split(0, train=4, validation=3)


@pytest.mark.parametrize("sizes", [{"train": -1}, {"train": 0}, {"validation": -5}, {"train": 2.5}])
def test_numbers_of_nodes_that_no_split_has(sizes):
    with pytest.raises(ConfigError, match="whole number"):
        ring().random_split(0, **sizes)


def test_random_splits_leave_nodes_for_test():
    with pytest.raises(DataError, match="leave none for test"):
        ring().random_split(0, train=4, validation=2)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"train": []}, "part train .* is empty"),
        ({"validation": []}, "part validation .* is empty"),
        ({"test": []}, "part test .* is empty"),
        ({"test": [4, 5, 11]}, "1 of 3 nodes in the part test .* no class"),
        ({"test": [1, 2, 4]}, "names 2 of its 7 nodes more than once"),
        ({"train": [0, 0, 1]}, "names 1 of its 6 nodes more than once"),
    ],
)
def test_published_splits_that_cannot_be_used(changes, complaint):
    parts = {"train": [0, 1], "validation": [2, 3], "test": [4]}
    labels = torch.tensor([0, 1] * 5 + [0, -1])
    good = NodeSplit(**{name: torch.tensor(nodes) for name, nodes in parts.items()})
    assert ring(labels=labels, split=good).public_split() is good
    bad = NodeSplit(**{name: torch.tensor(nodes, dtype=torch.int64) for name, nodes in (parts | changes).items()})
    with pytest.raises(DataError, match=complaint) as error:
        ring(labels=labels, split=bad).public_split()
    assert len(str(error.value)) < 300


def test_the_largest_component_keeps_features_and_labels():
    edges = np.array([[0, 2, 4, 6], [2, 4, 6, 0]])
    data = ring(9, 2, graph=graph_of_edges("g", edges, 9), labels=torch.tensor([0, 0, 1, 0, 0, 0, 1, 1, 1]))
    part = data.largest_component()
    assert len(part) == 4
    assert part.labels.tolist() == [0, 1, 0, 1]
    assert part.features.dense().equal(data.features.dense()[[0, 2, 4, 6]])
    assert connected_components(part.graph).max() == 0
    with pytest.raises(DataError, match="no published split"):
        part.public_split()
