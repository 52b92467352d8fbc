"""Convection-diffusion on graphs: Lie-Trotter steps are the published ones, dropout is dropout, graphs are bound."""

import re

import pytest
import torch
from torch.nn import functional as F

from evolvent import Evolution
from evolvent.dynamics import ConvectionDiffusion, Residual, on_graph
from evolvent.dynamics.convection_diffusion import diffuse_and_drop
from evolvent.errors import ConfigError
from evolvent.gradients import make_strategy
from evolvent.graphs import gaussian_affinity, normalise
from evolvent.integrators import Euler, LieTrotter
from evolvent.operators import GraphDiffusion, UnstableDiffusionWarning
from evolvent.testing import check_gradient


def graph(count=20, kind="row"):
    return normalise(gaussian_affinity(torch.randn(count, 3, dtype=torch.float64), 6, sigma=1.0), kind)


def convection(width=3):
    return Residual(width, operator="dense", norm=None, bias=True).double()


def evolution(blocks=2, **options):
    options = {"gamma": 0.3, "diffusion_steps": 4} | options
    return Evolution([ConvectionDiffusion(convection(), **options) for _ in range(blocks)], LieTrotter(Euler()))


def test_a_step_is_equation_6_and_then_equation_7():
    W, x = graph(), torch.randn(20, 3, dtype=torch.float64)
    flow = evolution()
    expected, dense = x, W.dense()
    for block in flow.dynamics:
        expected = expected + block.convection(0.0, expected)
        for _ in range(4):
            differences = expected[:, None] - expected[None]
            expected = expected - 0.3 * (dense[..., None] * differences).sum(1)
    torch.testing.assert_close(on_graph(flow, W)(x), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("flow", ["explicit", "implicit", "exponential"])
def test_all_flows_agree_for_small_strengths(flow):
    W, x = graph(), torch.randn(20, 3, dtype=torch.float64)
    torch.manual_seed(1)
    one = evolution(gamma=1e-4)
    torch.manual_seed(1)
    other = evolution(gamma=1e-4, flow=flow)
    torch.testing.assert_close(on_graph(one, W)(x), on_graph(other, W)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strategy", ["checkpoint", "backprop"])
def test_gradient_strategies_use_the_graph_of_their_forward_pass(strategy):
    flow = evolution()
    first, second, x = graph(), graph(), torch.randn(20, 3, dtype=torch.float64)
    flow.gradient = strategy
    losses = [on_graph(flow, W)(x).square().sum() for W in (first, second)]
    mixed = torch.autograd.grad(sum(losses), list(flow.parameters()))
    flow.gradient = "backprop"
    alone = [torch.autograd.grad(on_graph(flow, W)(x).square().sum(), list(flow.parameters())) for W in (first, second)]
    for found, one, two in zip(mixed, *alone, strict=True):
        torch.testing.assert_close(found, one + two)


def test_check_gradient_takes_a_bound_evolution():
    check_gradient(make_strategy("checkpoint"), on_graph(evolution(), graph()), torch.randn(20, 3))


def test_binding_changes_nothing_and_shares_parameters():
    flow, W = evolution(), graph()
    bound = on_graph(flow, W)
    assert [p is q for p, q in zip(flow.parameters(), bound.parameters(), strict=True)] == [True] * 8
    assert bound is not flow
    assert bound.dynamics[0].diffusion is bound.dynamics[1].diffusion
    with pytest.raises(ConfigError, match="need a graph"):
        flow(torch.randn(20, 3, dtype=torch.float64))
    shared = GraphDiffusion(W)
    assert on_graph(flow, shared).dynamics[0].diffusion is shared
    module = torch.nn.Linear(2, 2)
    assert on_graph(module, W) is module


@pytest.mark.parametrize("drop_first", [False, True])
def test_dropping_flow_is_a_product_and_dropout_in_turn(drop_first):
    P = GraphDiffusion(graph(60)).propagator(0.5)
    u = torch.ones(60, 200, dtype=torch.float64)
    share = 0.3
    once = diffuse_and_drop(u, P, 1, share, drop_first=False)
    assert (once == 0).double().mean() == pytest.approx(share, abs=0.02)
    torch.testing.assert_close(once[once != 0], torch.full_like(once[once != 0], 1 / 0.7))
    many = torch.stack([diffuse_and_drop(u, P, 3, share, drop_first) for _ in range(60)])
    peers = torch.stack([_plain(u, P, 3, share, drop_first) for _ in range(60)])
    assert many.mean() == pytest.approx(peers.mean().item(), abs=0.01)
    assert many.var() == pytest.approx(peers.var().item(), rel=0.05)


def _plain(u, P, steps, share, drop_first):
    for _ in range(steps):
        u = P @ (F.dropout(u, share) if drop_first else u)
        u = u if drop_first else F.dropout(u, share)
    return u


@pytest.mark.parametrize("drop_first", [False, True])
def test_gradient_of_the_dropping_flow(drop_first):
    P = GraphDiffusion(graph(7)).propagator(0.5)

    def act(u):
        torch.manual_seed(3)
        return diffuse_and_drop(u, P, 3, 0.4, drop_first)

    assert torch.autograd.gradcheck(act, torch.randn(7, 3, dtype=torch.float64, requires_grad=True))


def test_dropout_acts_in_training_alone_and_with_every_stepwise_flow():
    W, x = graph(), torch.randn(20, 3, dtype=torch.float64)
    first = {"dropout_place": "before"}
    for options in (first, {}, {"flow": "implicit"}, {"flow": "implicit", **first}):
        flow = on_graph(evolution(1, dropout=0.5, **options), W)
        assert (flow.train()(x) - flow(x)).abs().max() > 1e-3
        torch.testing.assert_close(flow.eval()(x), flow(x), rtol=0, atol=0)


def test_explicit_steps_are_checked_on_the_graph():
    x = torch.randn(20, 3, dtype=torch.float64)
    with pytest.raises(ConfigError, match="gamma = 5 is too large"):
        on_graph(evolution(gamma=5.0), graph())(x)
    with pytest.warns(UserWarning, match="grow"):
        on_graph(evolution(gamma=5.0, allow_unstable=True), graph())(x)
    assert on_graph(evolution(gamma=100.0, flow="implicit"), graph())(x).isfinite().all()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_strengths_in_messages_are_those_that_were_given(dropout):
    W, x = graph(kind="symmetric"), torch.randn(20, 3, dtype=torch.float64)

    def halved(gamma, steps, allowed=False):
        f = ConvectionDiffusion(convection(), gamma, steps, dropout=dropout, allow_unstable=allowed)
        return on_graph(Evolution([f], LieTrotter(Euler()), step_size=0.5), W)

    largest = 2 * GraphDiffusion(W).largest_stable_step
    with pytest.raises(ConfigError, match=f"gamma = 8 is too large.* at most {largest:.4g} is stable") as said:
        halved(8.0, 3)(x)
    [(steps, strength)] = re.findall(r"take (\d+) steps of ([\d.]+) instead of 3", str(said.value))
    assert int(steps) * float(strength) == pytest.approx(24, rel=1e-3)
    halved(float(strength), int(steps))(x)
    with pytest.warns(UnstableDiffusionWarning, match=f"steps of 8 exceed {largest:.4g}"):
        halved(8.0, 3, allowed=True)(x)


def test_no_diffusion_needs_no_graph():
    flow, x = evolution(gamma=0.0), torch.randn(20, 3, dtype=torch.float64)
    torch.testing.assert_close(flow(x), on_graph(flow, graph())(x))


def test_strange_options():
    with pytest.raises(ConfigError, match=r"exponential flow is one step.* Set dropout to 0"):
        ConvectionDiffusion(convection(), 1.0, flow="exponential", dropout=0.5)
    ConvectionDiffusion(convection(), 0.0, flow="exponential", dropout=0.5)
    ConvectionDiffusion(convection(), 1.0, 0, flow="exponential", dropout=0.5)
    with pytest.raises(ConfigError, match="gamma"):
        ConvectionDiffusion(convection(), -1.0)
    assert "gamma=0.3" in repr(evolution())
