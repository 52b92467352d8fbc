"""What every method must do: keep kinds of state, dtypes and gradients, and be undone where it says so."""

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent import Evolution
from evolvent._core.state import parts
from evolvent.dynamics import Dynamics
from evolvent.integrators import Euler, LinearMultistep, ProjectedEuler
from evolvent.testing import all_integrators

METHODS = [*all_integrators(), LinearMultistep(4, k=-0.1)]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)
every_reversible_method = pytest.mark.parametrize("method", [m for m in METHODS if m.reversible], ids=repr)
every_plain_method = pytest.mark.parametrize(
    "method", [m for m in METHODS if m.acts_on is Dynamics and not isinstance(m, ProjectedEuler)], ids=repr
)


@every_method
def test_dtype_and_shape_are_kept(method, dynamics_for, state_for, run, dtype):
    u = state_for(method, dtype=dtype)
    v = run(method, dynamics_for(method, dtype=dtype), u, 0.1)
    assert isinstance(v, tuple) is isinstance(u, tuple)
    assert [(p.dtype, p.shape) for p in parts(v)] == [(p.dtype, p.shape) for p in parts(u)]


@every_plain_method
def test_tuple_states_go_as_one_tensor_does(method, dynamics_for, run):
    """Two parts that follow the same equation end as the two halves of one batch; Dopri5 chooses steps by all parts."""
    f, h = dynamics_for(method), 0.1
    first, second = torch.randn(2, 2, 3, dtype=torch.float64)

    class InTurn(Dynamics):
        def forward(self, t, u):
            return tuple(f(t, p) for p in u)

    apart = run(method, InTurn(), (first, second), h)
    together = run(method, f, torch.cat([first, second]), h)
    torch.testing.assert_close(torch.cat(apart), together, rtol=1e-7, atol=1e-9)


@every_method
def test_gradients_are_those_of_finite_differences(method, dynamics_for, state_for, run):
    f, method = dynamics_for(method), copy.deepcopy(method)
    u = tuple(p.abs().requires_grad_() for p in parts(state_for(method)))  # inside the cone of ProjectedEuler
    in_tuple = isinstance(state_for(method), tuple)
    theta = [*f.parameters(), *(method.double().parameters() if isinstance(method, LinearMultistep) else [])]

    def advance(*arguments):
        return parts(run(method, f, arguments[: len(u)] if in_tuple else arguments[0], 0.1))

    assert torch.autograd.gradcheck(advance, (*u, *theta), atol=1e-7, rtol=1e-5)


@every_method
def test_evolution_trains_float32_networks(method, dynamics_for):
    f = dynamics_for(method, dtype=torch.float32)
    flow = Evolution([f, f, f], method, step_size=0.1)
    doubled = method.acts_on.__name__ == "PartitionedDynamics"
    u0 = torch.randn(2, 6 if doubled else 3)
    v = flow(u0)
    assert v.shape == u0.shape
    v.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in f.parameters())
    assert len(flow.trajectory(u0)) == 4


@every_method
def test_methods_can_be_pickled(method, dynamics_for, state_for, run):
    twin = pickle.loads(pickle.dumps(method))
    f, u = dynamics_for(method), state_for(method)
    assert repr(twin) == repr(method)
    for a, b in zip(parts(run(twin, f, u, 0.1)), parts(run(method, f, u, 0.1)), strict=True):
        assert torch.equal(a, b)


@every_reversible_method
@given(st.lists(st.integers(1, 4), min_size=0, max_size=3), st.integers(1, 4), st.floats(0.01, 0.5), st.floats(-2, 2))
def test_unstep_undoes_step(method, dynamics_for, state_for, shape, width, h, t):
    f = dynamics_for(method, width=width)
    u = state_for(method, (*shape, width))
    back = method.unstep(f, t, method.step(f, t, u, h), h)
    for a, b in zip(back, u, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_empty_batches_pass(dynamics_for, run):
    for method in METHODS:
        if method.acts_on is Dynamics and "Dopri5" not in repr(method):
            assert run(method, dynamics_for(method), torch.zeros(0, 3, dtype=torch.float64), 0.1).shape == (0, 3)


def test_multistep_with_k_zero_is_euler_bitwise(dynamics_for, state_for, run):
    f, u = dynamics_for(Euler()), state_for(Euler())
    assert torch.equal(run(LinearMultistep(3), f, u, 0.1), run(Euler(), f, u, 0.1))


@every_reversible_method
def test_one_half_of_a_pair_may_be_mapped(method, dynamics_for, run):
    """``torch.func`` follows one part, and the change of the other has no room for it."""
    f = dynamics_for(method)
    first, second = torch.randn(2, 5, 2, 3, dtype=torch.float64)
    for follow in (lambda a: run(method, f, (a, second[0]), 0.1), lambda a: run(method, f, (second[0], a), 0.1)):
        found = torch.func.vmap(follow)(first)
        for k, expected in enumerate(map(follow, first)):
            torch.testing.assert_close(tuple(p[k] for p in found), expected)
        slope = torch.func.grad(lambda a, follow=follow: sum(p.sum() for p in follow(a)))(first[0])
        assert slope.shape == first[0].shape
