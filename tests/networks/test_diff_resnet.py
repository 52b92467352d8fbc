"""Diff-ResNet for points: a block against its formula, the graph of the batch, the states that are shown."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent import create_model
from evolvent.errors import ConfigError, DataError, ShapeError
from evolvent.graphs import gaussian_affinity, normalise
from evolvent.networks.diff_resnet import BatchGraph, DiffusionNetwork
from evolvent.operators import GraphDiffusion
from evolvent.operators.graph_diffusion import UnstableDiffusionWarning
from evolvent.testing import check_network

SMALL = {"n_top": 5, "diffusion_steps": 3}


def network(**options) -> DiffusionNetwork:
    model = create_model("diff_resnet", **SMALL | options).double()
    assert isinstance(model, DiffusionNetwork)
    return model


@pytest.mark.parametrize(
    "options",
    [
        {"blocks": 2, "width": 7, "num_classes": 3, "in_features": 3},
        {"flow": "implicit", "gamma": 50.0},
        {"flow": "exponential", "normalisation": "symmetric"},
        {"normalisation": "gcn", "gamma": 0.5, "include_self": False},
        {"gamma": 0.0},
    ],
)
def test_every_kind_keeps_the_contract(options):
    check_network("diff_resnet", torch.randn(9, options.get("in_features", 2)), **SMALL | options)


def test_the_network_is_the_papers_formula():
    """Section E.1.2: x + FC2(ReLU(FC1 x)), r times x - gamma (I - W) x, FC3."""
    model, x = network(gamma=0.7), torch.randn(30, 2, dtype=torch.float64)
    W = normalise(gaussian_affinity(x, 5, sigma=0.5), "row").dense()
    f = model.evolution.dynamics_at(0).convection
    u = x + f.outer(torch.relu(f.inner(x)))
    for _ in range(3):
        u = u - 0.7 * (u - W @ u)
    torch.testing.assert_close(model(x), model.head(u))


def test_the_twin_has_no_diffusion_and_couples_nothing():
    torch.manual_seed(0)
    with_it = create_model("diff_resnet", diffusion_steps=4)
    torch.manual_seed(0)
    without = create_model("no_diff_resnet")
    x = torch.randn(40, 2)
    assert (with_it.couples_batch, without.couples_batch) == (True, False)
    assert all(torch.equal(p, q) for p, q in zip(with_it.parameters(), without.parameters(), strict=True))
    torch.testing.assert_close(without(x)[:3], without(x[:3]))
    assert not torch.allclose(with_it(x)[:3], with_it(x[:3]))


def test_a_given_graph_takes_the_place_of_the_batchs():
    model, x = network(), torch.randn(20, 2, dtype=torch.float64)
    W = model.graph_of.weights(x)
    torch.testing.assert_close(model(x, W), model(x))
    torch.testing.assert_close(model(x, GraphDiffusion(W)), model(x))
    other = normalise(gaussian_affinity(x, 3, sigma=2.0), "row")
    assert not torch.allclose(model(x, other), model(x))
    with pytest.raises(ShapeError, match=r"20 points.*19"):
        model(x, normalise(gaussian_affinity(x[:19], 3, sigma=2.0), "row"))


def test_a_graph_is_made_once_for_the_same_points_and_not_kept_in_copies():
    graph = BatchGraph(4, 0.5)
    sets = [torch.randn(10, 2) for _ in range(5)]
    made = [graph(x) for x in sets]
    assert graph(sets[4].clone()) is made[4]
    assert graph(sets[0]) is not made[0]  # only the last few are remembered
    assert graph(sets[4].double()).laplacian.dtype == torch.float64
    for twin in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert twin._known == []


def test_changing_the_points_in_place_changes_the_graph():
    graph, x = BatchGraph(4, 0.5), torch.randn(10, 2)
    before = graph(x)
    x += torch.randn(10, 2)
    assert graph(x) is not before


@settings(max_examples=20)
@given(st.integers(1, 6), st.booleans(), st.sampled_from(["row", "symmetric", "gcn"]))
def test_small_and_duplicate_batches_have_a_graph(count, include_self, normalisation):
    """Fewer points than n_top, a single one, all at one place."""
    model = network(n_top=25, include_self=include_self, normalisation=normalisation, gamma=0.5)
    x = torch.randn(1, 2, dtype=torch.float64).expand(count, 2)
    assert model(x).isfinite().all()
    torch.testing.assert_close(model(x), model.head(model.evolution_on(x).dynamics_at(0).convection(0.0, x) + x))


def test_states_shown_are_those_of_fewer_diffusion_steps():
    model, x = network(diffusion_steps=60, blocks=2), torch.randn(30, 2, dtype=torch.float64)
    [path] = model.trajectories(x, frames=4)
    assert len(path) == 1 + 2 * (1 + 4)
    assert path[0] is x
    torch.testing.assert_close(path[-1], model.forward_features(x))
    for number, steps in enumerate((1, 4, 15, 60)):
        fewer = network(diffusion_steps=steps)
        fewer.load_state_dict({k: v for k, v in model.state_dict().items() if ".1." not in k})
        torch.testing.assert_close(path[2 + number], fewer.forward_features(x))
    [short] = network(gamma=0.0).trajectories(x)
    assert len(short) == 2


def test_states_shown_have_names():
    blocks = network(diffusion_steps=60, blocks=2).moments(frames=3)
    assert blocks[:3] == ["points", "block 1: convection", "block 1: 1 diffusion step"]
    assert blocks[-1] == "block 2: 60 diffusion steps"
    assert network(gamma=0.0).moments() == ["points", "convection"]
    for model in (network(blocks=2), network(flow="implicit"), network(gamma=0.0)):
        [path] = model.trajectories(torch.randn(30, 2, dtype=torch.float64))
        assert len(model.moments()) == len(path)


def test_unstable_steps_are_refused_or_warned_of():
    x = torch.randn(30, 2, dtype=torch.float64)
    with pytest.raises(ConfigError, match=r"too large for explicit diffusion.*at most"):
        network(gamma=3.0)(x)
    with pytest.warns(UnstableDiffusionWarning):
        network(gamma=3.0, allow_unstable=True)(x)
    assert network(gamma=3.0, flow="implicit")(x).isfinite().all()


def test_bad_points_are_refused():
    with pytest.raises(DataError, match="finite"):
        network()(torch.full((9, 2), float("nan"), dtype=torch.float64))
    with pytest.raises(ShapeError):
        network().trajectories(torch.zeros(9, 3, dtype=torch.float64))


@pytest.mark.parametrize("options", [{"n_top": 1}, {"gamma": -1.0}, {"sigma": 0.0}, {"normalisation": "column"}])
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError):
        network(**options)
