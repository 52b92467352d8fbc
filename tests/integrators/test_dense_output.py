"""Solutions at any time, to the order that a method claims."""

import math

import pytest
import torch
from torch.testing import assert_close

from evolvent import Evolution
from evolvent.dynamics import Hamiltonian, Residual, time_varying
from evolvent.errors import ConfigError
from evolvent.integrators import RK4, AdamsBashforth2, Euler, Verlet
from evolvent.testing import all_integrators, problem_for

END = 1.0
TIMES = torch.linspace(0.03, 0.97, 23, dtype=torch.float64).tolist()


def largest_error(method, steps: int) -> float:
    problem = problem_for(method)
    flow = Evolution(problem.dynamics, method, steps, END / steps)
    with torch.no_grad():
        found = flow.at(problem.solution(0.0), TIMES)
    errors = []
    for t, value in zip(TIMES, found, strict=True):
        exact = problem.solution(t)
        # of second-order equations the order is that of the position
        pair = (value[0], exact[0]) if isinstance(value, tuple) else (value, exact)
        errors.append((pair[0] - pair[1]).abs().max().item())
    return max(errors)


@pytest.mark.parametrize("method", [m for m in all_integrators() if not m.adaptive], ids=repr)
def test_the_order_holds_between_grid_points(method):
    coarse, fine = largest_error(method, 80), largest_error(method, 320)
    assert math.log(coarse / fine, 4) > method.order - 0.15


@pytest.mark.parametrize("method", all_integrators(), ids=repr)
def test_grid_points_are_those_of_the_trajectory(method):
    problem = problem_for(method)
    flow = Evolution(problem.dynamics, method, 5, 0.1)
    with torch.no_grad():
        path, found = flow.trajectory(problem.solution(0.0)), flow.at(problem.solution(0.0), [0.3, 0, 0.5, 0.1])
    for k, value in zip((3, 0, 5, 1), found, strict=True):
        assert_close(value, path[k], rtol=0, atol=0)


def test_features_go_in_and_come_out_of_lists_and_pairs():
    flow = Evolution([Hamiltonian(2) for _ in range(3)], Verlet(), step_size=0.1).double()
    u = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    first, last = flow.at(u, torch.tensor([0.05, 0.3], dtype=torch.float64))
    assert first.shape == u.shape
    assert_close(last, flow(u))
    half = Evolution(flow.dynamics[0], Verlet(), 1, 0.05)
    assert_close(first, half(u))


def test_time_varying_dynamics_and_gradients():
    dynamics = time_varying(Residual(2, norm=None), 3, end_time=0.4)
    flow = Evolution(dynamics, RK4(), 4, 0.1)
    u = torch.randn(1, 2, 4, 4, requires_grad=True)
    flow.at(u, [0.15])[0].square().sum().backward()
    assert u.grad.abs().sum() > 0
    assert all(p.grad is not None for p in list(dynamics.knots[0].parameters()) + list(dynamics.knots[1].parameters()))


def test_nothing_is_computed_beyond_the_last_time():
    calls = []

    def f(u):
        calls.append(1)
        return -u

    from evolvent.dynamics import from_module

    for method, most in ((Euler(), 3), (AdamsBashforth2(), 7)):
        calls.clear()
        Evolution(from_module(f), method, 100, 0.1).at(torch.ones(1), [0.15])
        assert len(calls) <= most
    assert Evolution(from_module(f), Euler(), 0, 0.1).at(torch.ones(1), [0.0])[0].item() == 1


@pytest.mark.parametrize("time", [-0.1, 0.6, float("nan")])
def test_times_outside_are_refused(time):
    flow = Evolution(Residual(2), Euler(), 5, 0.1)
    with pytest.raises(ConfigError, match="times must lie between 0 and T = steps"):
        flow.at(torch.zeros(1, 2, 4, 4), [0.1, time])
