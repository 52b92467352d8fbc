import math

import pytest
import torch

from evolvent.dynamics import Antisymmetric, Dynamics, Hamiltonian
from evolvent.evolution import Evolution
from evolvent.gradients import Backprop, ContinuousAdjoint
from evolvent.integrators import RK4, Dopri5, Euler, Heun, ImplicitMidpoint, StoermerVerlet, Verlet


def gradient(dynamics, method, steps, strategy) -> torch.Tensor:
    flow = Evolution(dynamics, method, steps=steps, step_size=1 / steps, gradient=strategy)
    u0 = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 4).requires_grad_()
    found = torch.autograd.grad(flow(u0).sin().sum(), [u0, *flow.parameters()])
    return torch.cat([g.flatten() for g in found])


def smooth(kind: type[Dynamics]) -> Dynamics:
    torch.manual_seed(0)
    width = 2 if kind is Hamiltonian else 4
    return kind(width, operator="dense", activation="tanh", bias=True).double()


@pytest.mark.parametrize(
    ("kind", "method"),
    [(Antisymmetric, Euler()), (Antisymmetric, Heun()), (Antisymmetric, RK4()), (Antisymmetric, ImplicitMidpoint()),
     (Hamiltonian, Verlet()), (Hamiltonian, StoermerVerlet()), (Hamiltonian, RK4())],
    ids=str,
)  # fmt: skip
def test_gradient_converges_at_the_order_of_the_method(kind, method):
    f = smooth(kind)
    expected = gradient(f, RK4(), 400, Backprop())
    errors = [(gradient(f, method, n, ContinuousAdjoint()) - expected).norm().item() for n in (16, 32)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(method.order, abs=0.25)


def test_adaptive_method_goes_back_adaptively():
    f, exact = smooth(Antisymmetric), Dopri5(1e-9, 1e-9)
    expected = gradient(f, RK4(), 400, Backprop())
    assert (gradient(f, exact, 1, ContinuousAdjoint()) - expected).norm() < 1e-6


def test_adjoint_is_not_exact():
    f = smooth(Antisymmetric)
    assert not ContinuousAdjoint.exact
    assert (gradient(f, Euler(), 4, ContinuousAdjoint()) - gradient(f, Euler(), 4, Backprop())).norm() > 1e-3


class Still(Dynamics):
    def forward(self, t, u):
        return torch.zeros_like(u) + t


def test_right_hand_side_without_state_or_parameters():
    u0 = torch.ones(1, 2, requires_grad=True)
    Evolution(Still(), Euler(), steps=3, gradient=ContinuousAdjoint())(u0).sum().backward()
    assert torch.equal(u0.grad, torch.ones(1, 2))
