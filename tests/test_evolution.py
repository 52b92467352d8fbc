import copy
import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from evolvent import Evolution, create_model, evolutions, set_gradient
from evolvent.dynamics import Dynamics, Hamiltonian, Residual
from evolvent.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.gradients import Backprop
from evolvent.integrators import RK4, AdamsBashforth2, Euler, Verlet


def hamiltonians(count: int, channels: int = 2, **options) -> list[Hamiltonian]:
    return [Hamiltonian(channels, **options) for _ in range(count)]


class Decay(Dynamics):
    """u' = -r u + t with a rate of no axes."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(1.0))

    def forward(self, t, u):
        return -self.rate * u + t


def test_shared_dynamics_are_a_list_of_the_same(dtype, tolerance):
    f = Hamiltonian(2).to(dtype)
    u0 = torch.randn(2, 4, 5, 5, dtype=dtype)
    shared = Evolution(f, Verlet(), steps=4, step_size=0.1)
    listed = Evolution([copy.deepcopy(f) for _ in range(4)], Verlet(), step_size=0.1)
    assert_close(shared(u0), listed(u0), **tolerance)
    assert len(list(listed.parameters())) == 4 * len(list(shared.parameters()))


@given(st.integers(0, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_trajectory_ends_where_forward_does(steps, channels, batch, height, width):
    evolution = Evolution(hamiltonians(steps, channels), Verlet(), step_size=0.1)
    u0 = torch.randn(batch, 2 * channels, height, width)
    path = evolution.trajectory(u0)
    assert len(path) == steps + 1
    assert torch.equal(path[0], u0)
    assert torch.equal(path[-1], evolution(u0))


@pytest.mark.parametrize(
    "made", [lambda: Evolution([], Verlet()), lambda: Evolution(Hamiltonian(2), Verlet(), steps=0)]
)
def test_zero_steps_change_nothing(made):
    evolution = made()
    u0 = torch.randn(2, 4, 3, 3)
    assert torch.equal(evolution(u0), u0)
    assert len(evolution.trajectory(u0)) == 1
    assert evolution.roughness() == 0


def test_time_and_step_are_handed_on(dtype):
    evolution = Evolution(Decay(), Euler(), steps=3, step_size=0.5).to(dtype)
    u = torch.ones(1, 1, dtype=dtype)
    expected = u
    for j in range(3):
        expected = expected + 0.5 * (-expected + 0.5 * j)
    assert_close(evolution(u), expected)


def test_multistep_state_is_started_and_finished():
    evolution = Evolution(Decay(), AdamsBashforth2(), steps=5, step_size=0.1)
    u0 = torch.ones(2, 3)
    assert evolution(u0).shape == u0.shape
    assert torch.equal(evolution.trajectory(u0)[-1], evolution(u0))
    assert all(isinstance(u, torch.Tensor) for u in evolution.trajectory(u0))


def test_tensor_is_split_into_the_pair():
    evolution = Evolution(hamiltonians(3), Verlet(), step_size=0.1)
    u0 = torch.randn(2, 4, 3, 3)
    y, z = evolution((u0[:, :2], u0[:, 2:]))
    assert torch.equal(evolution(u0), torch.cat([y, z], dim=1))
    assert torch.equal(torch.cat(evolution.trajectory((u0[:, :2], u0[:, 2:]))[-1], dim=1), evolution(u0))


def test_odd_channels_cannot_be_split():
    with pytest.raises(ShapeError, match=r"channels in halves, got 3 of them\. Take an even number"):
        Evolution(hamiltonians(1), Verlet())(torch.randn(1, 3, 4, 4))


@pytest.mark.parametrize("listed", [False, True])
def test_verlet_refuses_dynamics_in_one_part(listed):
    with pytest.raises(ConfigError, match=r"Verlet\(\) acts on PartitionedDynamics, but Residual does not belong"):
        Evolution([Hamiltonian(2), Residual(2)] if listed else Residual(2), Verlet(), steps=None if listed else 1)


@pytest.mark.parametrize("steps", [True, -1, 1.5, None])
def test_steps_are_a_whole_number(steps):
    with pytest.raises(ConfigError, match="steps must be a whole number of at least 0, got"):
        Evolution(Decay(), Euler(), steps=steps)


@pytest.mark.parametrize("method", [Euler, "euler", None])
def test_a_method_is_an_object(method):
    with pytest.raises(ConfigError, match=r"needs a method such as Euler\(\) or Verlet\(\), with brackets, got "):
        Evolution(Decay(), method, steps=1)


@pytest.mark.parametrize("listed", [False, True])
def test_other_modules_are_no_dynamics(listed):
    with pytest.raises(ConfigError, match="needs dynamics, one or a list of them, got Linear"):
        Evolution([nn.Linear(2, 2)] if listed else nn.Linear(2, 2), Euler(), steps=1)


@pytest.mark.parametrize("steps", [None, -1, 2.5, "3"])
def test_shared_dynamics_need_a_number_of_steps(steps):
    with pytest.raises(ConfigError, match="whole number of at least 0"):
        Evolution(Decay(), Euler(), steps=steps)


def test_a_list_has_its_own_number_of_steps():
    assert Evolution(hamiltonians(3), Verlet(), steps=3).steps == 3
    with pytest.raises(ConfigError, match="3 dynamics makes 3 steps, but steps=2"):
        Evolution(hamiltonians(3), Verlet(), steps=2)


@pytest.mark.parametrize("h", [0, -0.1, float("nan"), float("inf")])
def test_step_size_is_positive_and_finite(h):
    with pytest.raises(ConfigError, match="step_size must be positive"):
        Evolution(hamiltonians(1), Verlet(), step_size=h)


@given(st.integers(0, 4), st.floats(0.05, 2), st.booleans())
def test_roughness_is_the_sum_of_eq_4_8(steps, h, bias):
    f = hamiltonians(steps, bias=bias)
    evolution = Evolution(f, Verlet(), step_size=h).double()
    naive = 0.0
    for before, after in itertools.pairwise(f):
        for layer in ("layer1", "layer2"):
            k0, k1 = (getattr(g, layer).operator.weight for g in (before, after))
            naive += h * ((k1 - k0) / h).square().sum().item()
    assert evolution.roughness().item() == pytest.approx(naive, rel=1e-10)


def test_roughness_is_differentiable_and_counts_matrices_only():
    evolution = Evolution(hamiltonians(2, bias=True), Verlet())
    evolution.roughness().backward()
    touched = {name.rsplit(".", 1)[-1] for name, p in evolution.named_parameters() if p.grad is not None}
    assert touched == {"weight"}


def test_roughness_without_matrices_is_zero():
    assert Evolution([Decay(), Decay()], Euler()).roughness() == 0
    assert Evolution(Hamiltonian(2), Verlet(), steps=5).roughness() == 0


def test_set_gradient_reaches_every_evolution():
    model = create_model("hamiltonian", channels=(4, 8), blocks=1)
    strategy = Backprop()
    set_gradient(model, strategy)
    assert [evolution.gradient for _, evolution in evolutions(model)] == [strategy, strategy]
    set_gradient(model, "backprop")
    assert all(isinstance(evolution.gradient, Backprop) for _, evolution in evolutions(model))
    assert [name for name, _ in evolutions(model)] == ["body.0", "body.2"]


def test_unknown_strategy_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="'backprop'"):
        set_gradient(create_model("hamiltonian", channels=(4,), blocks=1), "backpropp")


def test_repr_tells_the_discretisation():
    shown = repr(Evolution(hamiltonians(2), Verlet(), step_size=0.25))
    assert "Verlet(), steps=2, step_size=0.25, gradient=Backprop()" in shown


@pytest.mark.parametrize("times", [0.5, 5, None, "abc", [None]])
def test_times_that_are_no_list_of_numbers_are_refused(times):
    with pytest.raises(ConfigError, match="times must be a list of numbers"):
        Evolution(Decay(), Euler(), steps=2, step_size=0.5).at(torch.ones(1), times)


def test_a_state_that_is_no_tensor_is_refused_at_any_time():
    with pytest.raises(ShapeError, match="takes a tensor"):
        Evolution(Decay(), Euler(), steps=2, step_size=0.5).at(None, [0.5])  # type: ignore[arg-type]


def test_times_next_to_the_ends_are_those_of_the_ends():
    flow, u = Evolution(Decay(), RK4(), steps=3, step_size=0.1), torch.ones(1, dtype=torch.float64)
    end = flow(u)
    for t in (0.0, 0.1 + 0.2 - 0.3, 0.3 - 0.2 - 0.1, 1e-13, 1e-10):
        assert flow.at(u, [t])[0].item() == 1.0
    for t in (0.3, 0.1 + 0.2, torch.tensor(0.3), 3 * torch.tensor(0.1)):
        assert_close(flow.at(u, [t])[0], end, rtol=1e-7, atol=0)
    assert flow.at(u, [1e-3])[0].item() == pytest.approx(0.999, abs=1e-6)
    for t in (-1e-6, 0.30001, float("nan")):
        with pytest.raises(ConfigError, match=r"must lie between 0 and T"):
            flow.at(u, [t])
