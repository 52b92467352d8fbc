"""Quasi-Newton methods: what their theory promises on quadratics, on Rosenbrock's valley, and where they end."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evolvent.errors import ConfigError, NonFiniteError, UnknownNameError
from evolvent.tasks import OptimizerConfig, make_optimizer, needs_closure
from evolvent.tasks.inverse_hessian import InverseHessian, scaling
from evolvent.tasks.line_search import ENOUGH_CURVATURE, ENOUGH_DECREASE, strong_wolfe
from evolvent.tasks.quasi_newton import FORMULAS, PrecisionWarning, QuasiNewton

DENSE = sorted(FORMULAS)


def closure(optimizer, objective, counted=None):
    def evaluate():
        optimizer.zero_grad()
        loss = objective()
        loss.backward()
        if counted is not None:
            counted.append(loss.item())
        return loss

    return evaluate


def quadratic(size, seed=0, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    root = torch.randn(size, size, dtype=dtype, generator=draw)
    matrix, target = root @ root.T / size + torch.eye(size, dtype=dtype), torch.randn(size, dtype=dtype, generator=draw)
    x = nn.Parameter(torch.zeros(size, dtype=dtype))
    return x, lambda: (x @ matrix @ x) / 2 - target @ x, torch.linalg.solve(matrix, target), matrix


@pytest.mark.parametrize("name", DENSE)
def test_a_quadratic_of_n_variables_takes_about_n_iterations(name):
    x, objective, solution, _ = quadratic(30)
    optimizer = make_optimizer([x], OptimizerConfig(name=name, iterations=30))
    optimizer.step(closure(optimizer, objective))
    assert (x - solution).norm() < 1e-4 * solution.norm()
    optimizer.step(closure(optimizer, objective))
    assert (x - solution).norm() < 1e-7 * solution.norm()


@pytest.mark.parametrize("name", DENSE)
def test_rosenbrocks_valley(name):
    x, values = nn.Parameter(torch.tensor([-1.2, 1.0] * 5, dtype=torch.float64)), []
    optimizer = QuasiNewton([x], name, iterations=120)
    optimizer.step(closure(optimizer, lambda: ((1 - x[::2]) ** 2 + 100 * (x[1::2] - x[::2] ** 2) ** 2).sum(), values))
    torch.testing.assert_close(x.detach(), torch.ones_like(x), rtol=0, atol=1e-8)
    assert len(values) < 300
    assert "rounds" in optimizer.stopped or "vanishes" in optimizer.stopped


@pytest.mark.parametrize("name", DENSE)
def test_the_inverse_hessian_stays_symmetric_and_positive_definite(name):
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double(), torch.rand(40, 2, dtype=torch.float64)
    optimizer = QuasiNewton(net.parameters(), name, iterations=21)
    for _ in range(3):
        optimizer.step(closure(optimizer, lambda: (net(x) - (4 * x).sin().sum(1, keepdim=True)).square().mean()))
        inverse = optimizer.state[next(net.parameters())]["inverse"]
        torch.testing.assert_close(inverse, inverse.T, rtol=1e-9, atol=1e-9 * inverse.abs().max().item())
        assert torch.linalg.eigvalsh(inverse).min() > 0


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), name=st.sampled_from(DENSE), updates=st.integers(1, 20))
def test_updates_are_those_of_the_formula_and_satisfy_the_secant_equation(seed, name, updates):
    """Waiting updates give what the written-out formula gives, product by product."""
    torch.manual_seed(seed)
    n, like = 5, torch.zeros(1, dtype=torch.float64)
    ours, dense = InverseHessian.identity(n, like, name), torch.eye(n, dtype=torch.float64)
    for _ in range(updates):
        s, g = torch.randn(2, n, dtype=torch.float64)
        y = s + 0.3 * torch.randn(n, dtype=torch.float64)
        y = y if y @ s > 0.1 else s
        hy, ys, sbs = dense @ y, (y @ s).item(), (s @ torch.linalg.solve(dense, s)).item()
        yhy = (y @ hy).item()
        answer = ours.update(s, ours.times(y), ys, yhy, sbs, ours.times(g), g)
        tau, phi = scaling(name, sbs / ys, yhy / ys, n)
        v = yhy**0.5 * (s / ys - hy / yhy)
        dense = (dense - hy.outer(hy) / yhy + phi * v.outer(v)) / tau + s.outer(s) / ys
        size = dense.abs().max().item()
        torch.testing.assert_close(answer, dense @ g, rtol=1e-7, atol=1e-8 * size)
        torch.testing.assert_close(ours.times(y), s, rtol=1e-7, atol=1e-8 * size)
        assert torch.linalg.eigvalsh(dense).min() > 0
    torch.testing.assert_close(ours.settle(), dense, rtol=1e-7, atol=1e-8 * size)


@given(b=st.floats(0.01, 100), extra=st.floats(0, 100), size=st.integers(1, 2000))
def test_scaling_keeps_the_matrix_positive_definite(b, extra, size):
    h = (1 + extra) / b  # Cauchy and Schwarz: h b >= 1
    for name in DENSE:
        tau, phi = scaling(name, b, h, size)
        assert 0 < tau <= 1
        assert phi > -1 / (h * b - 1) if h * b > 1 else True  # beyond, a Broyden update is not positive definite


def test_line_search_satisfies_the_strong_wolfe_conditions():
    x, p = torch.tensor([-1.0, 2.0], dtype=torch.float64), torch.tensor([3.0, -4.0], dtype=torch.float64)

    def at(step):
        here = (x + step * p).requires_grad_()
        value = (here**4).sum() + (3 * here).sin().sum()
        return value.item(), torch.autograd.grad(value, here)[0]

    value, gradient = at(0.0)
    slope = (p @ gradient).item()
    found = strong_wolfe(at, p, value, slope)
    assert found.value <= value + ENOUGH_DECREASE * found.step * slope
    assert abs(p @ found.gradient) <= ENOUGH_CURVATURE * abs(slope)
    assert strong_wolfe(lambda step: (1.0 + step, p), p, 1.0, -1.0) is None  # a slope that the objective does not have


def test_resumed_from_its_state_it_does_the_same_to_the_last_bit():
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1)).double(), torch.rand(30, 2, dtype=torch.float64)
    other = copy.deepcopy(net)

    def train(net, optimizer, steps):
        for _ in range(steps):
            optimizer.step(closure(optimizer, lambda: (net(x) - x.prod(1, keepdim=True)).square().mean()))

    whole = QuasiNewton(net.parameters(), iterations=7)
    train(net, whole, 4)
    half = QuasiNewton(other.parameters(), iterations=7)
    train(other, half, 2)
    rest = QuasiNewton(other.parameters(), iterations=7)
    rest.load_state_dict(copy.deepcopy(half.state_dict()))
    train(other, rest, 2)
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", [*DENSE, "lbfgs"])
def test_the_end_has_a_reason_and_float32_is_blamed(name):
    for dtype in (torch.float64, torch.float32):
        x, objective, _, _ = quadratic(6, dtype=dtype)
        optimizer = make_optimizer([x], OptimizerConfig(name=name, iterations=200, lr=1.0))
        assert needs_closure(optimizer)
        if dtype == torch.float32 and name != "lbfgs":
            with pytest.warns(PrecisionWarning, match=r"float32 ended .*after \d+ iterations.*64-true"):
                optimizer.step(closure(optimizer, objective))
        else:
            optimizer.step(closure(optimizer, objective))
        assert f"more than {str(dtype)[6:]} rounds it" in optimizer.stopped or "vanishes" in optimizer.stopped


def test_lbfgs_that_may_go_on_has_no_reason():
    x, objective, _, _ = quadratic(30)
    optimizer = make_optimizer([x], OptimizerConfig(name="lbfgs", iterations=3, lr=1.0))
    optimizer.step(closure(optimizer, objective))
    assert optimizer.stopped == ""


def test_a_vanishing_gradient_ends_at_once():
    x = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer = QuasiNewton([x])
    optimizer.step(closure(optimizer, lambda: x.square().sum()))
    assert optimizer.stopped == "the gradient vanishes"
    assert torch.equal(x.detach(), torch.zeros_like(x))


def test_an_objective_that_is_not_finite_is_not_called_converged():
    x = nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = QuasiNewton([x])
    optimizer.step(closure(optimizer, lambda: x.square().sum() * math.nan))
    assert "the objective or its gradient is not finite, nan" in optimizer.stopped
    assert torch.equal(x.detach(), torch.ones_like(x))


def test_parameters_without_gradient_stay():
    x, idle = nn.Parameter(torch.ones(2, dtype=torch.float64)), nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = QuasiNewton([x, idle])
    optimizer.step(closure(optimizer, lambda: (x - 3).square().sum()))
    torch.testing.assert_close(x.detach(), torch.full_like(x, 3.0))
    assert torch.equal(idle.detach(), torch.ones_like(idle))


def test_a_wrong_gradient_makes_it_forget_and_then_stop():
    x = nn.Parameter(torch.ones(4, dtype=torch.float64))
    optimizer = QuasiNewton([x], iterations=3)
    optimizer.step(closure(optimizer, lambda: (x**4).sum()))

    def lying():
        x.grad = -torch.ones_like(x)
        return (x.detach() ** 2).sum() + 1

    optimizer.step(lying)
    assert "no step lowers" in optimizer.stopped
    assert optimizer.state[x]["updates"] == 0


def test_what_cannot_be_done_is_refused():
    with pytest.raises(ConfigError, match=r"50,000 parameters need an inverse Hessian of 9\.3 GiB.*lbfgs.*32,768"):
        QuasiNewton([nn.Parameter(torch.empty(50_000))])
    with pytest.raises(UnknownNameError, match="broyden"):
        QuasiNewton([nn.Parameter(torch.zeros(2))], "broyden")
    with pytest.raises(ConfigError, match="iterations"):
        QuasiNewton([nn.Parameter(torch.zeros(2))], iterations=0)
    with pytest.raises(ConfigError, match="one group"):
        QuasiNewton([{"params": [nn.Parameter(torch.zeros(2))]}, {"params": [nn.Parameter(torch.zeros(2))]}])


def test_a_line_search_that_diverges_is_explained():
    """Like the engine, the closure refuses numbers that are not finite; here all steps lead there."""
    x = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = QuasiNewton([x], iterations=5)
    evaluate = closure(optimizer, lambda: x.sum())

    def edge():
        if x.item() != 1.0:
            raise NonFiniteError("not finite")
        return evaluate()

    optimizer.step(edge)
    assert x.item() == 1.0
    assert "every step from 1 leads to numbers that are not finite; begin with" in optimizer.stopped


def test_a_line_search_that_goes_too_far_once_begins_anew():
    x = nn.Parameter(torch.tensor([3.0, -2.0], dtype=torch.float64))
    optimizer, refused = QuasiNewton([x], iterations=1), []
    evaluate = closure(optimizer, lambda: (x**4).sum())
    for _ in range(6):
        optimizer.step(evaluate)

    def once():
        if not refused and optimizer.state[x]["updates"] and not torch.equal(x, start):
            refused.append(True)
            raise NonFiniteError("not finite")
        return evaluate()

    start, before = x.detach().clone(), (x**4).sum().item()
    optimizer.step(once)
    assert refused
    assert torch.equal(x, start)  # the step was given up, and what was learned forgotten
    optimizer.step(evaluate)
    assert (x**4).sum().item() < before
