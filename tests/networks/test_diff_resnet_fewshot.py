"""Diff-ResNet for few-shot tasks: its graph, its two readings, and what is refused."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent import create_model
from evolvent.errors import ConfigError
from evolvent.networks import FewShotNetwork
from evolvent.operators.graph_diffusion import UnstableDiffusionWarning


def make(name="diff_resnet_fewshot", **options) -> FewShotNetwork:
    network = create_model(name, **{"in_features": 6, "num_classes": 3} | options)
    assert isinstance(network, FewShotNetwork)
    return network.double()


def points(count=14, tasks=3):
    return torch.randn(tasks, count, 6, dtype=torch.float64)


def published_weights(x, n_top, sigma):
    """As the published code has it: strictly below the n_top-th smallest distance, the point itself counted."""
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    near = distance.kthvalue(n_top, 1, keepdim=True)[0]
    scale = distance.kthvalue(sigma, 1, keepdim=True)[0]
    weight = torch.exp(-(distance.masked_fill(distance >= near, torch.inf) / scale).square())
    root = weight.sum(1) ** -0.5
    weight = root[:, None] * weight * root
    return (weight + weight.T) / 2


def test_code_reading_is_that_of_the_published_code():
    x = points()
    found = make(reading="code").weights(x)
    for k in range(len(x)):
        torch.testing.assert_close(found[k], published_weights(x[k], 8, 4), rtol=1e-9, atol=1e-12)


def test_paper_reading_keeps_one_neighbour_more():
    x = points()
    counts = {reading: (make(reading=reading).weights(x) > 0).sum() for reading in ("paper", "code")}
    torch.testing.assert_close(make(n_top=7, sigma_neighbour=3).weights(x), make(reading="code").weights(x))
    assert counts["paper"] > counts["code"]


def test_propagator_is_all_diffusion_steps():
    network, x = make(diffusion_steps=4, gamma=0.3), points()
    expected = network.classifier(network.propagator(x) @ network.convect(x))
    torch.testing.assert_close(network(x), expected)
    ones = torch.ones(3, 14, 1, dtype=torch.float64)
    torch.testing.assert_close(network.propagator(x) @ ones, ones)


def test_twin_has_no_diffusion_and_the_same_parameters():
    torch.manual_seed(1)
    twin = make("resnet_fewshot")
    torch.manual_seed(1)
    network, x = make(), points()
    assert not twin.diffuses
    assert torch.equal(twin.forward_features(x), network.convect(x))
    assert torch.equal(twin.propagator(x)[0], torch.eye(14, dtype=torch.float64))
    assert not torch.allclose(twin(x), network(x))


def test_one_episode_needs_no_axis_of_episodes():
    network, x = make(), points()
    torch.testing.assert_close(network(x[1]), network(x)[1])


def test_diffusion_draws_neighbours_together():
    network, x = make(diffusion_steps=10), points()
    before, after = network.convect(x), network.forward_features(x)
    rough = [torch.trace(u[0].T @ network.laplacian(x)[0] @ u[0]) for u in (before, after)]
    assert rough[1] < 0.1 * rough[0]


def test_large_steps_are_refused_or_run_with_a_warning():
    x = points()
    largest = torch.linalg.eigvalsh(make().laplacian(x))[:, -1].max().item()
    make(gamma=1.99 / largest)(x)
    with pytest.raises(ConfigError, match=f"gamma up to {2 / largest:.3f}"):
        make(gamma=2.1 / largest)(x)
    with pytest.warns(UnstableDiffusionWarning, match="too large"):
        make(gamma=2.1 / largest, allow_unstable=True)(x)


@given(st.floats(1.01, 9.0), st.integers(1, 12))
def test_the_steps_that_a_refusal_advises_are_stable(factor, steps):
    x = points()
    gamma = 2 * factor / torch.linalg.eigvalsh(make().laplacian(x))[:, -1].max().item()
    with pytest.raises(ConfigError) as refused:
        make(gamma=gamma, diffusion_steps=steps)(x)
    assert len(str(refused.value)) < 300
    enough, less = re.search(r"take (\d+) diffusion_steps with gamma ([\d.e-]+\d)", str(refused.value)).groups()
    assert int(enough) * float(less) == pytest.approx(gamma * steps, rel=0.01)
    make(gamma=float(less), diffusion_steps=int(enough))(x)


def test_duplicate_points_have_a_defined_result():
    x = points()
    x[:, 1:9] = x[:, :1]
    assert make()(x).isfinite().all()


@pytest.mark.parametrize("options", [{"n_top": 40}, {"sigma_neighbour": 14}, {"reading": "code", "n_top": 2}])
def test_impossible_graphs_are_refused(options):
    with pytest.raises(ConfigError):
        make(**options)(points())
