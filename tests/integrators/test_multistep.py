import pytest
import torch
from torch import nn

from evolvent import Evolution
from evolvent.dynamics import Dynamics
from evolvent.errors import ConfigError
from evolvent.integrators import AdamsBashforth2, LinearMultistep


class Shear(Dynamics):
    """Tells the value it was asked at by its derivative."""

    def forward(self, t, u):
        return u * t + 1


def test_linear_multistep_is_its_formula():
    method, h, f = LinearMultistep(2, k=0.25).double(), 0.5, Shear()
    before, now = torch.randn(2, 3, dtype=torch.float64)
    after, kept = method.step(f, h, (now, before), h)
    torch.testing.assert_close(after, 0.75 * now + 0.25 * before + h * (now * h + 1), rtol=0, atol=1e-15)
    assert kept is now


def test_k_is_registered_and_trained(dynamics_for):
    method = LinearMultistep(3)
    flow = Evolution(dynamics_for(method), method, steps=3, step_size=0.1)
    assert dict(flow.named_parameters())["integrator.k"] is method.k
    assert "integrator.k" in flow.state_dict()
    flow(torch.randn(2, 3, dtype=torch.float64)).square().sum().backward()
    assert method.k.grad is not None
    assert method.k.grad.shape == (3,)
    assert method.k.grad[0] == 0  # its history is the value itself
    assert (method.k.grad[1:] != 0).all()


def test_linear_multistep_is_a_module_and_says_what_it_is():
    method = LinearMultistep(5)
    assert isinstance(method, nn.Module)
    assert repr(method) == "LinearMultistep(steps=5)"
    assert "LinearMultistep(steps=5)" in repr(Evolution(Shear(), method, steps=5))


def test_too_few_k_are_told():
    flow = Evolution(Shear(), LinearMultistep(2), steps=3, step_size=0.1)
    with pytest.raises(ConfigError, match=r"no k for step 2 .* as many steps as the evolution"):
        flow(torch.zeros(1, 3))
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        LinearMultistep(0)


def test_adams_bashforth_asks_once_per_step():
    class Counted(Shear):
        asked = 0

        def forward(self, t, u):
            self.asked += 1
            return super().forward(t, u)

    f = Counted()
    Evolution(f, AdamsBashforth2(), steps=5, step_size=0.1)(torch.zeros(1, 3))
    assert f.asked == 5 + 1


def test_adams_bashforth_is_its_formula():
    now, slope = torch.randn(2, 3, dtype=torch.float64)
    after, kept = AdamsBashforth2().step(Shear(), 2.0, (now, slope), 0.1)
    torch.testing.assert_close(after, now + 0.1 * (1.5 * (2 * now + 1) - 0.5 * slope), rtol=0, atol=1e-15)
    torch.testing.assert_close(kept, 2 * now + 1, rtol=0, atol=0)
