import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.dynamics import Dynamics, Hamiltonian, PartitionedDynamics
from evolvent.integrators import Euler, Integrator, LinearMultistep, ProjectedEuler, ReversibleIntegrator, Verlet
from evolvent.testing import all_integrators, check_integrator, check_stability, observed_order, problem_for

METHODS = [*all_integrators(), LinearMultistep(2000)]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)


@every_method
def test_observed_order_is_the_claimed_order(method):
    assert observed_order(method) == pytest.approx(method.order, abs=0.15)


@every_method
def test_stability_limits_are_the_claimed_ones(method):
    check_stability(method)


@pytest.mark.parametrize("method", [m for m in METHODS if m.reversible], ids=repr)
def test_contract(method):
    check_integrator(method)


@every_method
def test_step_keeps_shape_and_dtype(method):
    problem = problem_for(method)
    u = method.start(problem.dynamics, 0.0, problem.solution(0.0), 0.1)
    v = method.finish(method.step(problem.dynamics, 0.0, u, 0.1), 0.1)
    expected = problem.solution(0.0)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (v, expected)), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype


@every_method
def test_methods_describe_themselves(method):
    assert type(method).__name__ in repr(method)
    assert method.reversible is isinstance(method, ReversibleIntegrator)
    assert issubclass(method.acts_on, Dynamics)


def test_contracts_are_abstract():
    for kind in (Integrator, ReversibleIntegrator):
        with pytest.raises(TypeError, match="abstract"):
            kind()


class Linear(Dynamics):
    def forward(self, t, u):
        return tuple(-p + t for p in u) if isinstance(u, tuple) else -u + t


@given(st.floats(0.01, 2), st.floats(-3, 3))
def test_euler_is_its_formula_on_tensors_and_tuples(h, t):
    u, v = torch.randn(2, 2, 3, dtype=torch.float64)
    expected = u + h * (-u + t)
    assert torch.equal(Euler().step(Linear(), t, u, h), expected)
    assert torch.equal(Euler().step(Linear(), t, (v, u), h)[1], expected)


@given(st.floats(0.01, 2))
def test_projected_euler_is_euler_cut_at_zero(h):
    u = torch.randn(2, 3)
    euler, projected = (method.step(Linear(), 0.5, u, h) for method in (Euler(), ProjectedEuler()))
    assert torch.equal(projected, euler.clamp(min=0))


class Clock(PartitionedDynamics):
    """Tells at which times it was asked."""

    def dy(self, t, z):
        return torch.full_like(z, t)

    def dz(self, t, y):
        return torch.full_like(y, t)


def test_verlet_asks_each_part_at_its_time():
    y, z = Verlet().step(Clock(), 3.0, (torch.zeros(1), torch.zeros(1)), 0.5)
    assert (y.item(), z.item()) == (0.5 * 3.0, 0.5 * 3.5)


@given(st.integers(1, 3), st.integers(1, 4), st.floats(0.01, 0.5))
def test_verlet_is_undone_on_networks(channels, size, h):
    f = Hamiltonian(channels, bias=True).double()
    u = tuple(torch.randn(2, 2, channels, size, size, dtype=torch.float64))
    back = Verlet().unstep(f, 0.0, Verlet().step(f, 0.0, u, h), h)
    for a, b in zip(back, u, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12 * (1 + b.abs().max().item()))


def test_verlet_maps_preserve_volume():
    """Symplectic in one degree of freedom: the Jacobian of a step has determinant one."""

    class Pendulum(PartitionedDynamics):
        def dy(self, t, z):
            return z

        def dz(self, t, y):
            return -y.sin()

    def step(u):
        return torch.cat(Verlet().step(Pendulum(), 0.0, tuple(u.split(1)), 0.3))

    J = torch.func.jacrev(step)(torch.tensor([0.7, -0.4], dtype=torch.float64))
    assert torch.linalg.det(J).item() == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("method", [m for m in METHODS if m.reversible and m.acts_on is PartitionedDynamics], ids=repr)
def test_changes_in_low_precision_leave_the_state_in_full(method):
    f, u = Hamiltonian(4), (torch.randn(1, 4, 5, 5), torch.randn(1, 4, 5, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert f.dy(0.0, u[1]).dtype == torch.bfloat16
        assert [p.dtype for p in method.step(f, 0.0, u, 0.1)] == [torch.float32] * 2
