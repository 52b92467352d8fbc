"""The check must find what is wrong, and take methods that the library does not have yet."""

import math

import pytest
import torch

from evolvent.dynamics import Dynamics, PartitionedDynamics, SecondOrderDynamics, SplitDynamics
from evolvent.errors import ConfigError
from evolvent.integrators import Coupling, Euler, Integrator, ReversibleIntegrator, Verlet
from evolvent.testing import Problem, all_integrators, check_integrator, observed_order, problem_for


class RungeKutta4(Integrator):
    order = 4

    def step(self, f, t, u, h):
        k1 = f(t, u)
        k2 = f(t + h / 2, u + h / 2 * k1)
        k3 = f(t + h / 2, u + h / 2 * k2)
        k4 = f(t + h, u + h * k3)
        return u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class ForgetsTime(RungeKutta4):
    def step(self, f, t, u, h):
        return super().step(lambda _, v: f(t, v), t, u, h)


class Adams(Integrator):
    """Two-step Adams-Bashforth, with its history in the state."""

    order = 2

    def start(self, f, t, u, h):
        return u, f(t, u)

    def step(self, f, t, u, h):
        value, before = u
        now = f(t, value)
        return value + h * (1.5 * now - 0.5 * before), now

    def finish(self, u, h):
        return u[0]


class ImplicitExplicit(Integrator):
    order = 1
    acts_on = SplitDynamics

    def step(self, f, t, u, h):
        return f.solve(t, u + h * f.explicit(t, u), h)


class Kick(Integrator):
    """Velocity Verlet for equations of second order."""

    order = 2
    acts_on = SecondOrderDynamics

    def step(self, f, t, u, h):
        position, velocity = u
        velocity = velocity + h / 2 * f.acceleration(t, position)
        position = position + h * velocity
        return position, velocity + h / 2 * f.acceleration(t + h, position)


class Strang(ReversibleIntegrator):
    """Second-order splitting of partitioned dynamics."""

    order = 2
    acts_on = PartitionedDynamics

    def couplings(self, f, t, h):
        return [
            Coupling(0, 1, 1, lambda z: h / 2 * f.dy(t, z)),
            Coupling(1, 0, 1, lambda y: h * f.dz(t + h / 2, y)),
            Coupling(0, 1, 1, lambda z: h / 2 * f.dy(t + h, z)),
        ]


class Boastful(Euler):
    order = 2


class Forgetful(Verlet):
    def unstep(self, f, t, u, h):
        return super().unstep(f, t + h, u, h)


class Greedy(Verlet):
    def couplings(self, f, t, h):
        return [Coupling(0, 1, 1, lambda z: z), *super().couplings(f, t, h)]


@pytest.mark.parametrize("kind", [RungeKutta4, Adams, ImplicitExplicit, Kick, Strang])
def test_methods_of_every_kind_pass(kind):
    check_integrator(kind())


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (Boastful, r"Boastful\(\) is of order (1\.0|0\.9)\d .* claimed 2"),
        (ForgetsTime, "claimed 4"),
        (Forgetful, "claimed reversible"),
        (Greedy, "changes the state that it is given"),
    ],
)
def test_faults_are_found(kind, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_integrator(kind())


class Exponential(Dynamics):
    def forward(self, t, u):
        return u


def test_own_problem():
    problem = Problem("growth", Exponential(), lambda t: torch.tensor([math.exp(t)], dtype=torch.float64), 1.0)
    assert observed_order(RungeKutta4(), problem) == pytest.approx(4, abs=0.1)
    check_integrator(RungeKutta4(), problem)


def test_exact_methods_have_no_finite_order():
    class Exact(Integrator):
        order = 1

        def step(self, f, t, u, h):
            return u

    problem = Problem("rest", Exponential(), lambda t: torch.zeros(1, dtype=torch.float64), 1.0)
    assert math.isinf(observed_order(Exact(), problem))


def test_kinds_without_a_problem_are_told_so():
    class Odd(Dynamics):
        pass

    class Method(Euler):
        acts_on = Odd

    with pytest.raises(ConfigError, match="no problem for Odd"):
        problem_for(Method())


@pytest.mark.parametrize("method", [Euler(), Verlet(), ImplicitExplicit(), Kick()], ids=repr)
def test_problems_solve_their_equation(method):
    """The derivative of the solution, by central differences, is the right-hand side; and it stays positive."""
    problem = problem_for(method)

    def flat(u):
        return torch.cat(u, dim=1) if isinstance(u, tuple) else u

    for t in torch.linspace(0, problem.end, 11).tolist():
        slope = (flat(problem.solution(t + 1e-5)) - flat(problem.solution(t - 1e-5))) / 2e-5
        torch.testing.assert_close(slope, flat(problem.dynamics(t, problem.solution(t))), rtol=0, atol=1e-8)
        first = problem.solution(t)
        assert (first[0] if isinstance(first, tuple) else first).min() > 0


def test_all_integrators_are_concrete_and_few_are_missing():
    kinds = {type(method) for method in all_integrators()}
    assert {Euler, Verlet} <= kinds
    assert Integrator not in kinds
    assert ReversibleIntegrator not in kinds
