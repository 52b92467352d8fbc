import pytest
import torch
from torch.func import functional_call, jacrev

from evolvent import Evolution
from evolvent._core.state import parts
from evolvent.dynamics import Dynamics
from evolvent.errors import ConfigError, NonFiniteError
from evolvent.integrators import ImplicitMidpoint


class Linear(Dynamics):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, t, u):
        return self.rate * u


def implicit_function_theorem(f, t, u, h, step):
    """Jacobians of the step by u and by each parameter, from dense solves at the solution."""
    m = ((u + step) / 2).detach()
    eye = torch.eye(u.numel(), dtype=u.dtype)
    named = dict(f.named_parameters())
    J = jacrev(lambda v: f(t + h / 2, v))(m)
    by_theta = jacrev(lambda theta: functional_call(f, theta, (t + h / 2, m)))(named)
    inverse = torch.linalg.inv(eye - h / 2 * J)
    rest = [h * inverse @ by_theta[name].reshape(u.numel(), -1).detach() for name in named]
    return [(2 * inverse - eye).detach(), *rest]


@pytest.mark.parametrize("start", ["anywhere", "equilibrium", "tiny"])
def test_gradient_is_that_of_the_implicit_function_theorem(dynamics_for, start):
    """At an equilibrium the first guess is the solution, so the derivative of its iterations would be wrong."""
    method, t, h = ImplicitMidpoint(), 0.4, 0.9
    f = dynamics_for(method)
    u = torch.randn(3, dtype=torch.float64)
    if start == "equilibrium":
        u = -torch.linalg.solve(f.K.weight, f.K.bias).detach()
    if start == "tiny":
        u = 1e-9 * u
        torch.nn.init.zeros_(f.K.bias)
    u.requires_grad_()
    v = method.step(f, t, u, h)
    rows = [torch.autograd.grad(v[i], [u, *f.parameters()], retain_graph=True) for i in range(3)]
    for found, expected in zip(zip(*rows, strict=True), implicit_function_theorem(f, t, u, h, v), strict=True):
        stacked = torch.stack([g.flatten() for g in found])
        torch.testing.assert_close(stacked, expected, rtol=1e-10, atol=1e-10 * expected.abs().max().item())


def test_small_gradients_are_as_exact_as_large_ones(dynamics_for):
    f, u = dynamics_for(ImplicitMidpoint()), torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    v = ImplicitMidpoint().step(f, 0.0, u, 0.9)
    large, small = (torch.autograd.grad((c * v).sum(), u, retain_graph=True)[0] for c in (1.0, 1e-9))
    torch.testing.assert_close(small / 1e-9, large, rtol=1e-11, atol=0)


def test_the_step_solves_its_equation(dynamics_for, dtype, tolerance):
    f, u, h = dynamics_for(ImplicitMidpoint(), dtype=dtype), torch.randn(4, 3, dtype=dtype), 0.5
    v = ImplicitMidpoint().step(f, 0.0, u, h)
    torch.testing.assert_close(v, u + h * f(h / 2, (u + v) / 2), **tolerance)


def test_parts_that_need_no_gradient_or_have_none(dynamics_for):
    class Drift(Dynamics):
        """The second part drives the first and is driven by nothing."""

        def forward(self, t, u):
            return u[1].square(), torch.ones_like(u[1])

    u = tuple(torch.randn(2, 3, dtype=torch.float64, requires_grad=True))
    u = tuple(p.detach().requires_grad_() for p in u)
    v = ImplicitMidpoint().step(Drift(), 0.0, u, 0.2)
    first, second = torch.autograd.grad(v[0].sum(), u)
    assert torch.equal(first, torch.ones_like(first))
    torch.testing.assert_close(second, 0.2 * 2 * (u[1] + 0.1), rtol=1e-12, atol=1e-12)

    class Constant(Dynamics):
        def forward(self, t, u):
            return tuple(torch.ones_like(p) for p in u)

    (only,) = ImplicitMidpoint().step(Constant(), 0.0, u[:1], 0.2)
    assert torch.equal(torch.autograd.grad(only.sum(), u[0])[0], torch.ones_like(only))


def test_memory_holds_one_evaluation_however_many_iterations(dynamics_for):
    """Tensors kept for backward: as many with a loose tolerance as with a tight one."""
    f, u = dynamics_for(ImplicitMidpoint()), torch.randn(2, 3, dtype=torch.float64)
    kept = []
    for tolerance in (1e-1, 1e-13):
        count = 0

        def pack(x):
            nonlocal count
            count += 1
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            ImplicitMidpoint(tolerance).step(f, 0.0, u, 0.9)
        kept.append(count)
    assert kept[0] == kept[1] > 0


def test_checkpointing_gives_the_same_gradient(dynamics_for):
    from torch.utils.checkpoint import checkpoint

    f, u = dynamics_for(ImplicitMidpoint()), torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    def step(u):
        return ImplicitMidpoint().step(f, 0.0, u, 0.5)

    plain = torch.autograd.grad(step(u).square().sum(), [u, *f.parameters()])
    again = torch.autograd.grad(checkpoint(step, u, use_reentrant=False).square().sum(), [u, *f.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))


@pytest.mark.parametrize("power", [1, 2])
def test_second_derivatives_are_refused(dynamics_for, power):
    """Also for a functional with a constant derivative, for which torch itself would let a wrong one pass."""
    f, u = dynamics_for(ImplicitMidpoint()), torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    value = ImplicitMidpoint().step(f, 0.0, u, 0.5).pow(power).sum()
    with pytest.raises(ConfigError, match=r"second derivatives .* integrator other than ImplicitMidpoint"):
        torch.autograd.grad(value, u, create_graph=True)


def test_too_large_a_step_is_told(dynamics_for):
    flow = Evolution(Linear(-3.0), ImplicitMidpoint(max_iterations=30), steps=1, step_size=1.0)
    with pytest.raises(
        ConfigError, match=r"still changes by .* after at most 30 iterations .* smaller step size than h=1"
    ):
        flow(torch.ones(1, 2))


def test_overflow_is_told():
    flow = Evolution(Linear(-1e6), ImplicitMidpoint(), steps=1, step_size=1.0)
    with pytest.raises(NonFiniteError, match="smaller step size than h=1"):
        flow(torch.ones(1, 2))


def test_nan_in_one_part_is_not_hidden():
    class Broken(Dynamics):
        def forward(self, t, u):
            return -u[0], u[1] * float("nan")

    with pytest.raises(NonFiniteError, match="fixed-point"):
        ImplicitMidpoint(max_iterations=3).step(Broken(), 0.0, (torch.ones(2), torch.ones(2)), 0.1)


@pytest.mark.parametrize("bad", [{"tolerance": 0.0}, {"tolerance": -1.0}, {"max_iterations": 0}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        ImplicitMidpoint(**bad)


def test_quadratic_invariants_are_kept(run):
    class Rotation(Dynamics):
        def forward(self, t, u):
            return torch.stack([u[..., 1], -u[..., 0]], dim=-1) * (1 + u.square().sum(-1, keepdim=True))

    u = torch.randn(5, 2, dtype=torch.float64)
    (v,) = parts(run(ImplicitMidpoint(), Rotation(), u, 0.1, count=20))
    torch.testing.assert_close(v.norm(dim=-1), u.norm(dim=-1), rtol=1e-12, atol=0)
