import pytest
import torch
from torch import nn

from evolvent.dynamics import Hamiltonian, Residual
from evolvent.evolution import Evolution
from evolvent.gradients import STRATEGIES, Backprop, GradientStrategy
from evolvent.integrators import Euler, ProjectedEuler, Verlet
from evolvent.testing import check_gradient

EVOLUTIONS = {
    "hamiltonian list": lambda: Evolution([Hamiltonian(2, bias=True) for _ in range(4)], Verlet(), step_size=0.1),
    "hamiltonian shared": lambda: Evolution(Hamiltonian(2), Verlet(), steps=3, step_size=0.2),
    "hamiltonian norm": lambda: Evolution([Hamiltonian(2, norm="batch") for _ in range(2)], Verlet(), step_size=0.1),
    "one step": lambda: Evolution([Hamiltonian(2)], Verlet()),
    "no step": lambda: Evolution(Hamiltonian(2), Verlet(), steps=0),
    "residual": lambda: Evolution([Residual(4, "pre") for _ in range(3)], Euler(), step_size=0.5),
    "residual evaluated": lambda: Evolution([Residual(4) for _ in range(3)], ProjectedEuler()).eval(),
}


def fits(strategy: GradientStrategy, evolution: Evolution) -> bool:
    """Strategies that undo steps need methods whose steps can be undone."""
    return type(evolution.integrator).reversible or "reversible" not in strategy.name


@pytest.mark.parametrize("name", STRATEGIES.names())
@pytest.mark.parametrize("made", EVOLUTIONS.values(), ids=EVOLUTIONS)
def test_strategy_agrees_with_autograd(name, made):
    strategy, evolution = STRATEGIES.get(name)(), made()
    if not fits(strategy, evolution):
        pytest.skip(f"{strategy} needs a reversible method")
    check_gradient(strategy, evolution, torch.randn(2, 4, 3, 5))


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_strategy_agrees_on_pairs_and_single_pixels(name):
    evolution = Evolution([Hamiltonian(1) for _ in range(3)], Verlet(), step_size=0.1)
    check_gradient(STRATEGIES.get(name)(), evolution, (torch.randn(1, 1, 1, 1), torch.randn(1, 1, 1, 1)))


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_registered_under_its_own_name(name):
    strategy = STRATEGIES.get(name)()
    assert strategy.name == name
    assert isinstance(strategy.exact, bool)
    assert type(strategy).__name__ in repr(strategy)


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_value_without_gradient(name):
    evolution = Evolution([Hamiltonian(1), Hamiltonian(1)], Verlet(), gradient=STRATEGIES.get(name)())
    with torch.no_grad():
        value = evolution(torch.randn(1, 2, 3, 3))
    assert not value.requires_grad


def test_backprop_against_a_loop_written_out():
    f = [Hamiltonian(1).double() for _ in range(3)]
    evolution = Evolution(f, Verlet(), step_size=0.1)
    u0 = torch.randn(1, 2, 3, 3, dtype=torch.float64)
    evolution(u0).square().sum().backward()
    found = [p.grad.clone() for p in evolution.parameters()]
    evolution.zero_grad()
    y, z = u0.chunk(2, 1)
    for g in f:
        y = y + 0.1 * nn.functional.conv_transpose2d(
            nn.functional.conv2d(z, g.layer1.operator.weight, padding=1).relu(), g.layer1.operator.weight, padding=1
        )
        z = z - 0.1 * nn.functional.conv_transpose2d(
            nn.functional.conv2d(y, g.layer2.operator.weight, padding=1).relu(), g.layer2.operator.weight, padding=1
        )
    (y.square().sum() + z.square().sum()).backward()
    for p, expected in zip(evolution.parameters(), found, strict=True):
        torch.testing.assert_close(p.grad, expected, rtol=1e-10, atol=1e-12)


def test_contract_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        GradientStrategy()
    assert repr(Backprop()) == "Backprop()"
