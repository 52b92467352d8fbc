"""Processes, the recursion along paths, and references of semilinear equations."""

import math
from dataclasses import replace

import pytest
import torch

from evolvent.data import BrownianPaths
from evolvent.equations import (
    SEMILINEAR,
    SemilinearProblem,
    allen_cahn_ball,
    black_scholes_default,
    hamilton_jacobi_bellman,
)
from evolvent.errors import ConfigError, ShapeError, UnknownNameError


def heat(dimension=3):
    """u = |x|^2 + 2 d (T - t) solves u_t + Laplacian u = 0."""
    return SemilinearProblem(
        name="heat", dimension=dimension, until=0.5, volatility=math.sqrt(2), source=lambda t, x, u, z: 0 * u,
        terminal=lambda x: x.square().sum(1, keepdim=True), start=1.0,
    )  # fmt: skip


def end_of(problem, steps, count=4000):
    increments = BrownianPaths(count, steps, problem.dimension, problem.until).take(torch.arange(count), 0, 0)
    increments = increments.transpose(0, 1).double()
    paths = problem.paths(increments)
    value = torch.tensor(problem.dimension + 2.0 * problem.dimension * problem.until, dtype=torch.float64)
    z = math.sqrt(2) * 2 * paths[:-1]
    return problem.along(value, z, paths, increments) - problem.terminal(paths[-1])


def test_the_true_value_and_gradient_end_at_the_terminal_value_with_order_one_half():
    coarse, fine = (end_of(heat(), steps) for steps in (16, 64))
    assert abs(coarse.mean()) < 4 * coarse.std() / math.sqrt(len(coarse))
    assert coarse.std() / fine.std() == pytest.approx(2, rel=0.1)


def test_a_source_without_its_axis_is_refused():
    problem = replace(heat(), source=lambda t, x, u, z: 0 * u[:, 0])
    with pytest.raises(ShapeError, match="the solution of problem 'heat' along paths must be"):
        end_of(problem, 2, count=3)


def test_geometric_paths_have_the_moments_of_their_equation():
    problem = black_scholes_default(2)
    paths = problem.paths(BrownianPaths(40_000, 4, 2, 1.0).take(torch.arange(40_000), 0, 0).transpose(0, 1).double())
    for k, t in enumerate((0, 0.25, 0.5, 0.75, 1.0)):
        assert paths[k].mean().item() == pytest.approx(100 * math.exp(0.02 * t), rel=2e-3)
        assert paths[k].log().var().item() == pytest.approx(0.04 * t, rel=2e-2, abs=1e-9)


def test_hamilton_jacobi_bellman_against_monte_carlo():
    problem = hamilton_jacobi_bellman(10)
    ends = math.sqrt(2) * torch.randn(200_000, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    by_chance = -torch.exp(-problem.terminal(ends)).mean().log().item()
    assert problem.reference is not None
    assert problem.reference() == pytest.approx(by_chance, abs=5e-3)


def test_references_are_the_published_ones():
    values = [make().reference() for make in (hamilton_jacobi_bellman, allen_cahn_ball, black_scholes_default)]
    assert values == pytest.approx([4.5901, 0.0528, 57.300], rel=1e-3)
    assert black_scholes_default(7).reference is None


def test_allen_cahn_by_its_radius_equals_the_heat_equation_with_weak_reaction():
    """For short times u(0, 0) is the mean of the terminal value plus T times the reaction, up to T^2."""
    until, d = 1e-3, 20
    found = allen_cahn_ball(d, until).reference()
    ends = math.sqrt(2 * until) * torch.randn(100_000, d, generator=torch.Generator().manual_seed(0)).double()
    start = allen_cahn_ball(d).terminal(ends)
    assert found == pytest.approx((start + until * (start - start**3)).mean().item(), abs=2e-5)


def test_paths_depend_on_their_number_alone_and_parts_share_none():
    train, test = (BrownianPaths(100, 3, 2, 1.0, part) for part in (0, 1))
    rows = torch.tensor([5, 9])
    assert torch.equal(train.take(rows, 1, 2)[1], train.take(torch.tensor([9]), 1, 2)[0])
    assert not torch.equal(train.take(rows, 1, 2), train.take(rows, 1, 3))
    assert not torch.equal(train.take(rows, 1, 2), test.take(rows, 1, 2))
    many = BrownianPaths(20_000, 3, 2, 0.6).take(torch.arange(20_000), 0, 0)
    assert many.var().item() == pytest.approx(0.2, rel=0.02)


def test_bad_problems_are_explained():
    with pytest.raises(ConfigError, match="positive time"):
        SemilinearProblem(name="a", dimension=1, until=-1, volatility=1, source=lambda *_: _[2], terminal=lambda x: x)
    with pytest.raises(ConfigError, match="starts above 0"):
        SemilinearProblem(
            name="a", dimension=1, until=1, volatility=1, source=lambda *_: _[2], terminal=lambda x: x,
            process="geometric",
        )  # fmt: skip
    with pytest.raises(UnknownNameError, match="hamilton-jacobi-bellman"):
        SEMILINEAR.get("hamilton-jacobi")
