"""SOAP: Adam where the basis is the identity, and what a rotation of the weights does to both."""

import copy

import pytest
import torch
from torch import nn

from evolvent.errors import ConfigError
from evolvent.tasks import OptimizerConfig, make_optimizer
from evolvent.tasks.soap import Soap


def numbers(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def trained(optimizer, x, steps=25, left=None, right=None):
    """Fit a matrix, which is seen through rotations, to a target by a badly scaled objective."""
    left = torch.eye(4, dtype=torch.float64) if left is None else left
    right = torch.eye(4, dtype=torch.float64) if right is None else right
    target, inputs = numbers(4, 4, seed=1), numbers(4, 9, seed=2) * torch.tensor([[1.0], [2.0], [0.5], [1.0]])
    for _ in range(steps):
        optimizer.zero_grad()
        ((left.T @ x @ right.T - target) @ inputs).square().mean().backward()
        optimizer.step()
    return x.detach()


def test_with_the_identity_as_its_basis_it_is_adam():
    net, x, y = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double(), numbers(20, 3), numbers(20, 1)
    other = copy.deepcopy(net)
    given = {"lr": 0.01, "betas": (0.8, 0.99)}
    ours, adam = Soap(net.parameters(), rotate=False, **given), torch.optim.Adam(other.parameters(), **given)
    for _ in range(30):
        for model, optimizer in ((net, ours), (other, adam)):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_rotation_of_the_weights_rotates_its_path_but_not_that_of_adam(side):
    turn = torch.linalg.qr(numbers(4, 4, seed=3)).Q
    begin = numbers(4, 4, seed=4)
    for make, same in (
        (lambda p: Soap(p, lr=0.05, frequency=3), True),
        (lambda p: torch.optim.Adam(p, lr=0.05), False),
    ):
        plain = nn.Parameter(begin.clone())
        turned = nn.Parameter(turn @ begin if side == "left" else begin @ turn)
        expected = trained(make([plain]), plain)
        found = trained(make([turned]), turned, **{side: turn})
        back = turn.T @ found if side == "left" else found @ turn.T
        assert torch.allclose(back, expected, rtol=1e-6, atol=1e-8) == same


def test_the_basis_is_orthonormal_and_finds_the_eigenvectors():
    x = nn.Parameter(numbers(4, 4))
    optimizer = Soap([x], lr=1e-3, frequency=1, betas=(0.9, 0.99))
    trained(optimizer, x, steps=300)
    state = optimizer.state[x]
    for side in ("left", "right"):
        basis, average = state[f"basis_{side}"], state[f"average_{side}"]
        torch.testing.assert_close(basis.T @ basis, torch.eye(4, dtype=torch.float64))
        inner = basis.T @ average @ basis
        off = inner - inner.diagonal().diag()
        assert off.norm() < 0.05 * inner.norm()


def test_vectors_and_long_sides_have_adam(monkeypatch):
    monkeypatch.setattr("evolvent.tasks.soap._LARGEST", 4)
    layer = nn.Linear(6, 3)
    optimizer = Soap(layer.parameters())
    layer(torch.ones(2, 6)).square().sum().backward()
    assert optimizer.step() is None
    assert "basis_left" in optimizer.state[layer.weight]
    assert not {"basis_right", "average_right"} & optimizer.state[layer.weight].keys()
    assert optimizer.state[layer.bias].keys() == {"steps", "mean", "square"}


def test_resumed_from_its_state_it_does_the_same_to_the_last_bit():
    whole, halved = (nn.Parameter(numbers(4, 4, seed=4)) for _ in range(2))
    make = lambda p: make_optimizer([p], OptimizerConfig(name="soap", lr=0.05, frequency=3))  # noqa: E731
    trained(make(whole), whole, steps=20)
    first = make(halved)
    trained(first, halved, steps=7)
    second = make(halved)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert torch.equal(trained(second, halved, steps=13), whole.detach())


def test_decay_is_decoupled_and_closures_are_called():
    x = nn.Parameter(torch.ones(2, 2))
    optimizer = Soap([x], lr=0.1, weight_decay=0.5)
    x.grad = torch.zeros(2, 2)
    assert optimizer.step(lambda: 3.0) == 3.0
    torch.testing.assert_close(x.detach(), torch.full((2, 2), 0.95))
    with pytest.raises(ConfigError, match="frequency"):
        Soap([x], frequency=0)
