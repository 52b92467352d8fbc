"""Growth of perturbations against the norm of a flow that is known, and against the singular values of a dense one."""

import pytest
import torch

from evolvent.analysis import perturbation_growth
from evolvent.analysis.linearisation import DifferenceLinearisation, linearise
from evolvent.analysis.states import StateLayout, evolution_inputs
from evolvent.dynamics import Dynamics, Hamiltonian
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, ImplicitMidpoint, Verlet


def test_growth_of_a_linear_system_is_the_norm_of_its_flow(linear_flow):
    matrix = torch.randn(5, 5, dtype=torch.float64)
    evolution = linear_flow(matrix, Euler())
    found = perturbation_growth(evolution, torch.randn(2, 5, dtype=torch.float64), iterations=2000, tolerance=1e-13)
    step = torch.eye(5, dtype=torch.float64) + 0.1 * matrix
    norms = [torch.linalg.matrix_norm(torch.linalg.matrix_power(step, j), ord=2).item() for j in range(7)]
    assert found.worst == pytest.approx(norms, rel=1e-8)
    assert found.times == pytest.approx([0.1 * j for j in range(7)])
    assert found.random[0] == pytest.approx(1.0)
    assert all(random <= worst * (1 + 1e-9) for random, worst in zip(found.random, found.worst, strict=True))


def test_random_growth_of_a_rotation_is_one(oscillator):
    found = perturbation_growth(oscillator(ImplicitMidpoint(), steps=8), torch.randn(2, 4, dtype=torch.float64))
    assert found.random == pytest.approx([1.0] * 9, abs=1e-6)
    assert found.worst == pytest.approx([1.0] * 9, abs=1e-4)


class Bent(Dynamics):
    def forward(self, t, u):
        return torch.tanh(u @ torch.tensor([[0.0, 2.0], [-2.0, -0.5]], dtype=u.dtype))


@pytest.mark.parametrize("name", ["resnet", "hamiltonian"])
def test_power_iteration_finds_the_largest_singular_value_of_the_dense_jacobian(network, images, name):
    model = network(name, channels=(4,), blocks=3).double()
    [start] = evolution_inputs(model, images[:1].double())
    model.eval()

    def run(x):
        return start.evolution(x.reshape(start.u0.shape)).flatten()

    dense = torch.autograd.functional.jacobian(run, start.u0.flatten())
    found = perturbation_growth(start.evolution, start.u0, iterations=500, tolerance=1e-10)
    assert found.worst[-1] == pytest.approx(torch.linalg.svdvals(dense)[0].item(), rel=1e-4)


def test_samples_are_worst_one_by_one(linear_flow):
    evolution = linear_flow(torch.tensor([[1.0, 3.0], [0.0, -2.0]]), Euler())
    one = perturbation_growth(evolution, torch.ones(1, 2), iterations=300, tolerance=1e-7)
    many = perturbation_growth(evolution, torch.ones(4, 2), iterations=300, tolerance=1e-7)
    assert many.worst == pytest.approx(one.worst, rel=1e-4)


def test_a_state_without_samples_is_one_sample(linear_flow):
    matrix = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    found = perturbation_growth(linear_flow(matrix, Euler(), steps=1), torch.ones(2, dtype=torch.float64), tolerance=0)
    assert found.worst[-1] == pytest.approx(torch.linalg.matrix_norm(torch.eye(2) + 0.1 * matrix, ord=2).item())
    coupled = StateLayout.of(torch.zeros(6, 2), batched=False)
    assert coupled.rows(torch.zeros(6, 2)).shape == (1, 12)
    assert coupled.state(torch.zeros(1, 12)).shape == (6, 2)


def test_deep_evolutions_are_looked_at_at_some_times(oscillator):
    found = perturbation_growth(oscillator(Verlet(), steps=40), torch.randn(1, 2), points=5, iterations=3)
    assert found.times == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0])
    assert len(found.random) == len(found.worst) == 5


def test_pairs_grow_as_whole_states():
    evolution = Evolution([Hamiltonian(2) for _ in range(3)], Verlet(), step_size=0.1)
    features = torch.randn(2, 4, 3, 3)
    as_features = perturbation_growth(evolution, features, iterations=200, tolerance=1e-7)
    as_pair = perturbation_growth(evolution, tuple(features.chunk(2, dim=1)), iterations=200, tolerance=1e-7)
    assert as_pair.worst == pytest.approx(as_features.worst, rel=1e-2)


def test_jacobian_of_a_computation_that_can_be_differentiated_once_only():
    evolution = Evolution(Bent(), ImplicitMidpoint(), steps=3, step_size=0.1)
    x = torch.ones(1, 2, dtype=torch.float64, requires_grad=True)
    map_ = linearise(evolution, x, evolution(x))
    assert isinstance(map_, DifferenceLinearisation)
    v = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(map_.forward(v), v @ map_.matrix().mT, rtol=1e-6, atol=1e-8)
    found = perturbation_growth(evolution, x.detach(), iterations=500, tolerance=1e-9)
    assert found.worst[-1] == pytest.approx(torch.linalg.svdvals(map_.matrix())[0].item(), rel=1e-5)


def test_jacobian_of_a_constant_is_zero():
    x = torch.ones(1, 2, requires_grad=True)
    for y in (torch.ones(1, 3), torch.ones(1, 3, requires_grad=True) * 2):
        map_ = linearise(lambda x, y=y: y, x, y)
        assert not map_.forward(x.detach()).any()
    assert not linearise(lambda x: torch.ones(1, 3), x, torch.ones(1, 3)).adjoint(torch.ones(1, 3)).any()


def test_a_zero_flow_has_no_growth(linear_flow):
    evolution = linear_flow(-10 * torch.eye(2), Euler(), steps=1)  # one step to zero
    found = perturbation_growth(evolution, torch.zeros(1, 2))
    assert max(found.worst[-1], found.random[-1]) < 1e-6


def test_model_is_left_as_it_was(any_network, images):
    before = {name: tensor.clone() for name, tensor in any_network.state_dict().items()}
    for start in evolution_inputs(any_network, images):
        perturbation_growth(start.evolution, start.u0, iterations=2)
    assert all(module.training for module in any_network.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in any_network.state_dict().items())
    assert all(p.grad is None for p in any_network.parameters())
    assert not any(m._forward_pre_hooks for m in any_network.modules())
