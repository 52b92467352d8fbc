import pytest
import torch

from evolvent.dynamics import SecondOrderDynamics
from evolvent.dynamics.hamiltonian import Hamiltonian
from evolvent.dynamics.residual import Residual
from evolvent.errors import ShapeError


class Spring(SecondOrderDynamics):
    def acceleration(self, t, u):
        return -u


@pytest.mark.parametrize(
    "make", [lambda: Residual(4), lambda: Hamiltonian(2), Spring], ids=["plain", "partitioned", "second order"]
)
def test_leave_undoes_enter(make):
    f, features = make(), torch.randn(2, 4, 3, 3)
    assert torch.equal(f.leave(f.enter(features)), features)


def test_second_order_features_enter_at_rest():
    position, velocity = Spring().enter(torch.ones(2, 3))
    assert torch.equal(position, torch.ones(2, 3))
    assert not velocity.any()
    assert torch.equal(Spring()(0.0, (position, velocity + 2))[0], velocity + 2)


def test_halves_need_an_even_number_of_channels():
    with pytest.raises(ShapeError, match="got 5"):
        Hamiltonian(2).enter(torch.ones(1, 5, 2, 2))


def test_halves_need_channels():
    with pytest.raises(ShapeError, match=r"got shape \(\)"):
        Hamiltonian(2).enter(torch.tensor(1.0))
