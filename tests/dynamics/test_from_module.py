"""Plain modules and functions as right-hand sides."""

import pytest
import torch
from torch import nn

import evolvent as ev
from evolvent.dynamics import from_module
from evolvent.errors import ConfigError, ShapeError
from evolvent.integrators import RK4, Euler
from evolvent.testing import check_gradient


class Forced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(-2.0))

    def forward(self, t, u, scale=1.0):
        return scale * self.rate * u + t


def test_a_module_of_the_state_is_trained_as_any_dynamics():
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
    flow = ev.Evolution(from_module(net), Euler(), steps=4, step_size=0.1)
    assert sum(p.numel() for p in flow.parameters()) == sum(p.numel() for p in net.parameters())
    u = torch.randn(5, 3)
    expected = u
    for _ in range(4):
        expected = expected + 0.1 * net(expected)
    torch.testing.assert_close(flow(u), expected)
    check_gradient(ev.gradients.make_strategy("checkpoint:2"), flow, u)


@pytest.mark.parametrize("f", [Forced(), lambda t, u: -2 * u + t])
def test_time_is_passed_where_it_is_asked_for(f):
    dynamics = from_module(f)
    assert dynamics.takes_time
    assert "f(t, u)" in repr(dynamics)
    assert dynamics(3.0, torch.tensor(1.0)).item() == 1.0


def test_functions_of_torch_and_told_ones():
    assert from_module(torch.tanh)(0.0, torch.zeros(2)).tolist() == [0, 0]
    assert from_module(lambda *parts: parts[-1], takes_time=True)(1.0, torch.ones(1)).item() == 1


@pytest.mark.parametrize(
    ("f", "message"), [(nn.Linear, "Make an object"), (3, "got int"), (lambda a, b, c: a, "needs a, b, c")]
)
def test_what_is_no_right_hand_side_is_refused(f, message):
    with pytest.raises(ConfigError, match=message):
        from_module(f)


def test_an_evolution_says_how_to_wrap_a_module():
    with pytest.raises(ConfigError, match=r"got Linear. Wrap it by evolvent\.dynamics\.from_module"):
        ev.Evolution(nn.Linear(2, 2), Euler(), steps=2)


@pytest.mark.parametrize(
    ("f", "given"),
    [
        (lambda u: u.sum(), r"float32 of shape \(\)"),
        (lambda u: (u, u), r"\(float32 of shape \(5, 2\), float32"),
        (lambda u: None, "NoneType None"),
        (nn.Linear(2, 3), r"float32 of shape \(5, 3\)"),
    ],
)
def test_what_is_no_derivative_of_the_state_is_refused(f, given):
    flow = ev.Evolution(from_module(f), RK4(), steps=2, step_size=0.1)
    with pytest.raises(ShapeError, match=rf"must give a state like its own, float32 of shape \(5, 2\), got {given}"):
        flow(torch.ones(5, 2))
