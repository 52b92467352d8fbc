import math

import pytest
import torch

from evolvent import Evolution
from evolvent.dynamics import Dynamics, Hamiltonian
from evolvent.errors import ConfigError, NonFiniteError
from evolvent.integrators import Dopri5, StoermerVerlet
from evolvent.testing import problem_for


class Law(Dynamics):
    def __init__(self, law):
        super().__init__()
        self.law = law

    def forward(self, t, u):
        assert isinstance(t, float)
        return self.law(t, u)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-10])
@pytest.mark.parametrize("steps", [1, 3])
def test_error_is_governed_by_the_tolerance(tolerance, steps):
    problem = problem_for(Dopri5())
    flow = Evolution(problem.dynamics, Dopri5(tolerance, tolerance), steps=steps, step_size=problem.end / steps)
    error = (flow(problem.solution(0.0)) - problem.solution(problem.end)).abs().max().item()
    assert error < 300 * tolerance


def test_only_the_given_interval_is_asked():
    """Dynamics may be defined there only."""
    asked = []

    def law(t, u):
        asked.append(t)
        return 30 * u.cos()

    Dopri5().step(Law(law), 2.0, torch.zeros(1, 3, dtype=torch.float64), 0.5)
    assert min(asked) == 2.0
    assert max(asked) <= 2.5
    assert max(asked) == pytest.approx(2.5)


def test_tuple_states(dtype):
    f = Hamiltonian(2, activation="tanh").to(dtype)
    u = tuple(torch.randn(2, 1, 2, 4, 4, dtype=dtype))
    tight = Dopri5(1e-12, 1e-12) if dtype == torch.float64 else Dopri5(1e-6, 1e-6)
    found = Evolution(f, tight, steps=1, step_size=0.1)(u)
    fine = Evolution(f.double(), StoermerVerlet(), steps=500, step_size=0.1 / 500)(tuple(p.double() for p in u))
    for a, b in zip(found, fine, strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-5)


def test_steps_that_overflow_at_once_are_made_small():
    v = Dopri5().step(Law(lambda t, u: -(u**3)), 0.0, torch.full((1, 1), 1e3, dtype=torch.float64), 1e3)
    assert v.item() == pytest.approx(1 / math.sqrt(2e3 + 1e-6), rel=1e-4)


@pytest.mark.parametrize("law", [lambda t, u: u * float("nan"), lambda t, u: u**2], ids=["nan", "blow-up"])
def test_underflow_is_told_with_what_to_do(law):
    with pytest.raises(NonFiniteError, match=r"step size fell .* loosen rtol and atol, or use a method of fixed step"):
        Dopri5().step(Law(law), 0.0, torch.ones(1, 2, dtype=torch.float64), 2.0)


def test_bad_input_is_told():
    with pytest.raises(NonFiniteError, match="not finite; check what goes in"):
        Dopri5().step(Law(lambda t, u: -u), 0.0, torch.tensor([1.0, float("inf")]), 1.0)


def test_stiffness_is_told():
    with pytest.raises(ConfigError, match=r"20 inner steps .* raise max_steps"):
        Dopri5(max_steps=20).step(Law(lambda t, u: -1e4 * u), 0.0, torch.ones(1, 2, dtype=torch.float64), 1.0)


def test_faults_of_the_dynamics_stay_faults():
    def law(t, u):
        raise AssertionError("a bug")

    with pytest.raises(AssertionError, match="a bug"):
        Dopri5().step(Law(law), 0.0, torch.ones(1, 2), 1.0)


@pytest.mark.parametrize("bad", [{"rtol": -1.0}, {"rtol": 0.0, "atol": 0.0}, {"atol": math.nan}, {"max_steps": 0}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(ConfigError, match=r"rtol|atol|max_steps"):
        Dopri5(**bad)


def test_it_says_its_tolerances():
    assert repr(Dopri5(1e-3, 1e-4)) == "Dopri5(rtol=0.001, atol=0.0001)"
