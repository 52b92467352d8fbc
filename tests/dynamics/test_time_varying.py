import copy
import itertools
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from evolvent import Evolution
from evolvent.dynamics import (
    Dynamics,
    Hamiltonian,
    PartitionedDynamics,
    ReactionDiffusion,
    Residual,
    SecondOrder,
    SecondOrderDynamics,
    SplitDynamics,
    TimeVarying,
    time_varying,
)
from evolvent.errors import ConfigError
from evolvent.gradients import STRATEGIES
from evolvent.integrators import Euler, ImexEuler, Leapfrog, Strang, Verlet
from evolvent.testing import check_exports, check_gradient


class Growth(Dynamics):
    """u' = r u."""

    def __init__(self, rate: float = 1.0) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(rate))

    def forward(self, t, u):
        return self.rate * u


CASES = {
    "plain": (lambda: Residual(4), Dynamics, Euler()),
    "partitioned": (lambda: Hamiltonian(2, bias=True), PartitionedDynamics, Verlet()),
    "second order": (lambda: SecondOrder(4), SecondOrderDynamics, Leapfrog()),
    "split": (lambda: ReactionDiffusion(4), SplitDynamics, ImexEuler()),
    "split twice": (lambda: ReactionDiffusion(4), SplitDynamics, Strang()),
}


def knots(make, count=3, end_time=1.0) -> TimeVarying:
    return time_varying([make() for _ in range(count)], end_time=end_time)


@pytest.mark.parametrize(("make", "structure", "method"), CASES.values(), ids=CASES)
def test_structure_is_kept_and_methods_take_it(make, structure, method):
    f = knots(make)
    assert isinstance(f, structure)
    u0 = torch.randn(2, 4, 5, 5)
    flow = Evolution(f, method, steps=4, step_size=0.25)
    flow(u0).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in f.knots[:2].parameters())


@pytest.mark.parametrize(("make", "structure", "method"), CASES.values(), ids=CASES)
def test_equal_knots_are_constant_dynamics(make, structure, method, dtype, tolerance):
    template = make().to(dtype)
    u0 = torch.randn(2, 4, 5, 5, dtype=dtype)
    varying = time_varying(template, 3, end_time=1.0)
    constant = Evolution(template, method, steps=5, step_size=0.2).eval()
    assert_close(Evolution(varying, method, steps=5, step_size=0.2).eval()(u0), constant(u0), **tolerance)


@pytest.mark.parametrize(("make", "structure", "method"), CASES.values(), ids=CASES)
def test_steps_are_those_of_the_interpolated_dynamics(make, structure, method):
    f = knots(make).double().eval()
    u0 = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    frozen = f.snapshot(0.3)
    state = frozen.enter(u0)
    assert_close(f(0.3, state), frozen(0.3, state), rtol=1e-12, atol=1e-12)
    assert_close(f.leave(f.enter(u0)), u0)


@given(st.floats(-0.5, 2.5), st.integers(2, 6))
def test_gradient_reaches_the_neighbours_with_hat_weights(t, count):
    f = time_varying([Growth(float(k)) for k in range(count)], end_time=2.0).double()
    u = torch.tensor([[3.0]], dtype=torch.float64)
    value = f(t, u)
    value.sum().backward()
    x = min(max(t / 2.0, 0.0), 1.0) * (count - 1)
    for k, knot in enumerate(f.knots):
        hat = max(0.0, 1.0 - abs(x - k))
        found = 0.0 if knot.rate.grad is None else knot.rate.grad.item()
        assert found == pytest.approx(3.0 * hat, abs=1e-6)
    assert value.item() == pytest.approx(3.0 * x, abs=1e-6)


def test_solution_with_linear_rate_is_the_analytic_one():
    f = time_varying([Growth(0.0), Growth(2.0)], end_time=1.0).double()
    u = Evolution(f, Euler(), steps=4000, step_size=1 / 4000)(torch.ones(1, 1, dtype=torch.float64))
    assert u.item() == pytest.approx(torch.e, rel=1e-3)


@pytest.mark.parametrize(("make", "structure", "method"), CASES.values(), ids=CASES)
def test_an_evolution_remembers_no_time(make, structure, method):
    flow = Evolution(knots(make), method, steps=4, step_size=0.25).eval()
    u0 = torch.randn(2, 4, 5, 5)
    assert torch.equal(flow(u0), flow(u0))


def test_strang_is_of_second_order_where_the_stiff_part_varies():
    torch.manual_seed(0)
    f = knots(lambda: ReactionDiffusion(2, activation="tanh")).double()
    u0 = torch.randn(1, 2, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        ends = [Evolution(f, Strang(), steps=n, step_size=1 / n)(u0) for n in (32, 64, 128)]
    first, second = (ends[1] - ends[0]).norm(), (ends[2] - ends[1]).norm()
    assert torch.log2(first / second).item() == pytest.approx(Strang.order, abs=0.15)


def test_rounding_does_not_move_a_time_over_a_knot():
    f = time_varying(Growth(), 11, end_time=1.0)
    assert [f.place(j * 0.1) for j in range(11)] == [*((j, 0.0) for j in range(10)), (9, 1.0)]


def test_running_statistics_belong_to_the_left_knot():
    f = knots(lambda: Residual(4))
    start = copy.deepcopy(f.state_dict())
    f(0.4, torch.randn(3, 4, 5, 5))
    changed = {name.split(".")[1] for name, b in f.named_buffers() if not torch.equal(b, start[name])}
    assert changed == {"0"}
    f(1.0, torch.randn(3, 4, 5, 5))
    assert torch.equal(f.knots[2].norm1.running_mean, start["knots.2.norm1.running_mean"])
    assert f.knots[1].norm1.num_batches_tracked == 1


def test_parameters_are_interpolated_once_per_time_inside_a_step(monkeypatch):
    f, count = knots(lambda: Hamiltonian(2)), []
    real = TimeVarying._interpolate
    monkeypatch.setattr(TimeVarying, "_interpolate", lambda self, t: count.append(t) or real(self, t))
    z = torch.randn(1, 2, 3, 3)
    with f.shared_parameters():
        f.dy(0.2, z), f.dz(0.2, z), f.dy(0.7, z)
    assert count == [0.2, 0.7]
    with torch.no_grad(), f.shared_parameters():
        f.dy(0.2, z)
    assert f._shared is None
    assert len(count) == 3


def test_a_changed_parameter_is_seen_by_the_next_step():
    f = time_varying(Growth(), 2, end_time=1.0)
    flow = Evolution(f, Euler(), steps=1)
    before = flow(torch.ones(1, 1))
    with torch.no_grad():
        f.knots[0].rate += 1
    assert flow(torch.ones(1, 1)) - before == 1


def test_state_dict_is_the_knots_and_copies_answer_alike():
    flow = Evolution(knots(lambda: Hamiltonian(2)), Verlet(), steps=4, step_size=0.25)
    u0 = torch.randn(1, 4, 3, 3)
    names = [name for k in range(3) for name in (f"dynamics.knots.{k}.layer{i}.operator.weight" for i in (1, 2))]
    assert list(flow.state_dict()) == names
    expected = flow(u0)
    for twin in (pickle.loads(pickle.dumps(flow)), copy.deepcopy(flow)):
        assert torch.equal(twin(u0), expected)
    check_exports(flow, u0)


@pytest.mark.parametrize("name", STRATEGIES.names())
@pytest.mark.parametrize("case", CASES)
def test_strategies_agree(name, case):
    make, _, method = CASES[case]
    strategy = STRATEGIES.get(name)()
    if not strategy.exact or ("reversible" in name and not type(method).reversible):
        pytest.skip("not a discrete gradient of this method")
    check_gradient(strategy, Evolution(knots(make), method, steps=5, step_size=0.2), torch.randn(2, 4, 3, 3))


def test_refined_knots_are_the_same_function():
    f = knots(lambda: Residual(4)).double().eval()
    finer = f.refine()
    assert type(finer) is type(f)
    assert len(finer.knots) == 5
    u = torch.randn(1, 4, 3, 3, dtype=torch.float64)
    for t in (0.0, 0.1, 0.25, 0.6, 0.99, 1.0):
        assert_close(finer(t, u), f(t, u), rtol=1e-12, atol=1e-12)


def test_roughness_is_over_the_knots():
    f = knots(lambda: Hamiltonian(2), 3, 2.0)
    flow = Evolution(f, Verlet(), steps=8, step_size=0.25)
    weights = [torch.cat([p.flatten() for p in knot.parameters()]) for knot in f.knots]
    expected = sum((b - a).square().sum() for a, b in itertools.pairwise(weights)) / 1.0
    assert_close(flow.roughness(), expected)


def test_misuse_is_answered():
    with pytest.raises(ConfigError, match="whole number of at least 2, got None"):
        time_varying(Growth(), end_time=1.0)
    with pytest.raises(ConfigError, match="at least 2 knots, got 1"):
        time_varying([Growth()], end_time=1.0)
    with pytest.raises(ConfigError, match="2 dynamics makes 2 knots, but knots=3"):
        time_varying([Growth(), Growth()], 3, end_time=1.0)
    with pytest.raises(ConfigError, match=r"knot 1 \(Residual\) differs from knot 0 \(Growth\)"):
        time_varying([Growth(), Residual(2)], end_time=1.0)
    with pytest.raises(ConfigError, match="end_time must be positive"):
        time_varying(Growth(), 2, end_time=0.0)
    with pytest.raises(ConfigError, match=r"T = 2, but steps \* step_size = 1"):
        Evolution(time_varying(Growth(), 2, end_time=2.0), Euler(), steps=4, step_size=0.25)
    assert "end_time=2" in repr(time_varying(Growth(), 2, end_time=2.0))
