"""Theory of diffusion networks: distances and diameters, hyperplanes, rates, contraction, a network written down."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evolvent.analysis import (
    Separation,
    count_parameters,
    measured_rate,
    parallel_hyperplanes,
    predicted_rate,
    separating_network,
    separation,
    separation_bound,
    step_norms,
)
from evolvent.data import PointCloud
from evolvent.errors import ConfigError, DataError, ShapeError
from evolvent.graphs import SparseMatrix, connectivity, gaussian_affinity, laplacian, largest_stable_step, normalise
from evolvent.operators import GraphDiffusion

SEEDS = st.integers(0, 2**31 - 1)


def xor(seed=0):
    cloud = PointCloud(kind="xor", points=200, noise=0.0)
    x, y = cloud.draw(seed)
    return x.double(), cloud.subclasses(), y


def clusters(seed: int, count: int, dimensions: int, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    centres = torch.randn(count, dimensions, generator=draw, dtype=torch.float64)
    points = centres[:, None] + spread * (torch.rand(count, 6, dimensions, generator=draw, dtype=torch.float64) - 0.5)
    return points.flatten(0, 1), torch.arange(count).repeat_interleave(6)


@settings(max_examples=20)
@given(SEEDS, st.integers(1, 4), st.integers(1, 4))
def test_distance_and_diameter_are_those_of_all_pairs(seed, count, dimensions):
    x, subclass = clusters(seed, count, dimensions, 1.0)
    pairs = [(i, j) for i in range(len(x)) for j in range(i)]
    squares = {(i, j): ((x[i] - x[j]) ** 2).sum().item() for i, j in pairs}
    apart = [d for (i, j), d in squares.items() if subclass[i] != subclass[j]]
    found = separation(x, subclass)
    assert found.distance == pytest.approx(min(apart, default=math.inf))
    assert found.diameter == pytest.approx(max(d for (i, j), d in squares.items() if subclass[i] == subclass[j]))
    assert found.length_ratio == pytest.approx(math.sqrt(found.ratio))


def test_single_points_have_no_diameter():
    assert separation(torch.eye(3), torch.arange(3)) == Separation(pytest.approx(2.0), 0.0)
    assert Separation(2.0, 0.0).ratio == math.inf


@settings(max_examples=30)
@given(SEEDS, st.integers(2, 5), st.integers(1, 5))
def test_hyperplanes_exist_where_theorem_2_says_so(seed, count, dimensions):
    x, subclass = clusters(seed, count, dimensions, 1.0)
    centres = torch.stack([x[subclass == k].mean(0) for k in range(count)])
    now = separation(x, subclass)
    assume(separation(centres, torch.arange(count)).distance > 1e-4)
    shrink = 0.2 * math.sqrt(separation(centres, torch.arange(count)).distance / now.diameter)
    x = centres[subclass] + shrink / separation_bound(count, dimensions) * (x - centres[subclass])
    assert separation(x, subclass).length_ratio >= separation_bound(count, dimensions)
    planes = parallel_hyperplanes(x, subclass)
    assert planes is not None
    assert torch.equal(planes.between(x), subclass)
    assert planes.normal.norm().item() == pytest.approx(1)
    places = torch.tensor(planes.offsets, dtype=torch.float64)[:, None] - x @ planes.normal.double()
    assert places.abs().min() >= planes.margin - 1e-12


def test_what_cannot_be_separated_is_not():
    x, discs, _ = xor()
    assert parallel_hyperplanes(x, discs) is None
    assert parallel_hyperplanes(torch.tensor([[0.0], [2.0], [1.0]]), torch.tensor([0, 0, 1])) is None
    one = parallel_hyperplanes(torch.randn(4, 2), torch.zeros(4, dtype=torch.int64))
    assert one is not None
    assert one.offsets == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("normalisation", "gamma"), [("row", 1.0), ("row", 0.5), ("symmetric", 0.8)])
def test_xors_ratio_grows_at_the_predicted_rate(seed, normalisation, gamma):
    x, discs, _ = xor(seed)
    weights = normalise(gaussian_affinity(x, 20, sigma=0.5), normalisation)
    assert connectivity(weights, discs).holds
    diffusion, along, u = GraphDiffusion(weights), [], x
    for _ in range(301):
        along.append(separation(u, discs))
        u = diffusion.flow(u, gamma)
    rate = predicted_rate(weights, gamma)
    assert measured_rate([one.diameter for one in along]) == pytest.approx(rate, rel=0.02)
    usable = [one for one in along if one.diameter > 1e-20]
    last, first = usable[-1], usable[len(usable) // 2]
    growth = math.log(last.ratio / first.ratio) / (len(usable) - 1 - len(usable) // 2)
    assert growth == pytest.approx(rate, rel=0.05)
    if normalisation == "row":  # rows of sum one keep every point in the hull of its disc
        assert all(after.diameter <= before.diameter * (1 + 1e-9) for before, after in pairwise(along))


def test_the_rate_in_continuous_time():
    x, discs, _ = xor(1)
    weights = normalise(gaussian_affinity(x, 20, sigma=0.5), "symmetric")
    diffusion = GraphDiffusion(weights)
    diameters = [separation(diffusion.flow(x, 2.0 * k, "exponential"), discs).diameter for k in range(60)]
    assert measured_rate(diameters) / 2 == pytest.approx(predicted_rate(weights, steps=False), rel=0.02)


def test_rates_of_simple_graphs():
    pair = SparseMatrix.from_dense(torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64))
    assert predicted_rate(pair, 0.25) == pytest.approx(-2 * math.log(0.5))  # eigenvalue 2
    assert predicted_rate(pair, 0.25, steps=False) == pytest.approx(1.0)
    assert predicted_rate(SparseMatrix.from_dense(torch.zeros(3, 3))) == math.inf
    apart = torch.zeros(3, 3)
    apart[1, 0] = apart[1, 2] = 0.5  # one component, but nodes 0 and 2 never move
    assert predicted_rate(SparseMatrix.from_dense(apart), 0.5) == 0
    with pytest.raises(ConfigError, match="four diameters"):
        measured_rate([1.0, 0.5])
    pairs = gaussian_affinity(torch.tensor([[0.0], [0.5], [80.0], [80.5]]), 4, sigma=0.5)  # weights of 0 between them
    assert predicted_rate(pairs, 0.5) == pytest.approx(-2 * math.log(1 - math.exp(-1)))
    nodes = torch.arange(5000)
    many = SparseMatrix.from_entries(nodes, nodes.roll(1), torch.ones(5000), (5000, 5000))
    with pytest.raises(ConfigError, match="4096"):
        predicted_rate(many)


@settings(max_examples=25)
@given(SEEDS, st.integers(2, 9), st.floats(0.05, 1.0))
def test_steps_contract_up_to_proposition_2s_bound(seed, count, share):
    draw = torch.Generator().manual_seed(seed)
    W = torch.rand(count, count, generator=draw, dtype=torch.float64)
    directed, symmetric = SparseMatrix.from_dense(W), SparseMatrix.from_dense(W + W.T)
    for weights in (directed, symmetric):
        norms = step_norms(weights, share / weights.row_sums().max().item())
        assert norms.maximum == pytest.approx(1)
        assert weights is directed or norms.euclidean <= 1 + 1e-12
    assert step_norms(symmetric, 1.01 * largest_stable_step(laplacian(symmetric))).euclidean > 1


@settings(max_examples=40)
@given(SEEDS, st.integers(2, 6), st.integers(2, 5), st.integers(1, 4), st.floats(0.01, 0.5))
def test_the_network_that_is_written_down_separates(seed, count, dimensions, width, spread):
    x, subclass = clusters(seed, count, dimensions, spread)
    planes = parallel_hyperplanes(x, subclass)
    assume(planes is not None and planes.margin > 1e-3)
    of_subclass = torch.randint(2, (count,), generator=torch.Generator().manual_seed(seed))
    assume(len(of_subclass.unique()) == 2)
    labels = of_subclass[subclass]
    network = separating_network(x, subclass, labels, width)
    features, side = network.forward_features(x), network(x)
    assert torch.equal(side > 0, labels == 1)
    torch.testing.assert_close(side, features @ network.push - network.offset)
    before = x @ network.push
    assert side.abs().min() >= 0.49 * (before.max() - before.min())  # classes end as far apart as they were wide
    assert count_parameters(network) == 2 * count + 2 * dimensions + 1
    assert network.evolution.steps == -(-count // width)
    normal = network.evolution.dynamics_at(0).normal
    torch.testing.assert_close(features @ normal, x @ normal)  # the place across the hyperplanes stays


def test_float32_points_are_separated_too():
    x, discs, classes = xor()
    weights = normalise(gaussian_affinity(x, 20, sigma=0.5), "row")
    moved = GraphDiffusion(weights).flow(x, 20.0, substeps=20).float()
    assert torch.equal(separating_network(moved, discs, classes, 3)(moved) > 0, classes == 1)


def test_what_cannot_be_written_down_is_said():
    x, discs, classes = xor()
    with pytest.raises(DataError, match="diffuse"):
        separating_network(x, discs, classes)
    line = torch.arange(4.0)[:, None].expand(4, 2)
    with pytest.raises(ConfigError, match="two classes"):
        separating_network(line, torch.arange(4), torch.tensor([0, 1, 2, 0]))
    with pytest.raises(DataError, match="subclass 0"):
        separating_network(line, torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1]))
    with pytest.raises(ShapeError, match="two coordinates"):
        separating_network(line[:, :1], torch.arange(4), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(ShapeError, match="subclasses"):
        separation(line, torch.arange(3))
