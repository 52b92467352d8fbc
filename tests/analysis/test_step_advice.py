"""Quick estimates against thorough ones, and what is said of networks whose steps are too large."""

import math

import pytest
import torch
from torch import nn

from evolvent.analysis import largest_stable_step
from evolvent.analysis.linearisation import Linearisation
from evolvent.analysis.spectrum import ritz_values
from evolvent.analysis.states import evolution_inputs
from evolvent.analysis.step_advice import quick_step_bound, step_advice
from evolvent.dynamics import Parabolic
from evolvent.evolution import Evolution
from evolvent.integrators import RK4, Euler, ImplicitMidpoint


def linear(matrix: torch.Tensor) -> Linearisation:
    x = torch.ones(1, len(matrix), dtype=matrix.dtype, requires_grad=True)
    return Linearisation(x, x @ matrix.mT)


def test_with_as_many_products_as_numbers_ritz_values_are_the_eigenvalues():
    matrix = torch.randn(6, 6, dtype=torch.float64)
    found, expected = ritz_values(linear(matrix), 6), torch.linalg.eigvals(matrix).tolist()
    for value in expected:
        assert min(abs(value - other) for other in found) < 1e-9


def test_few_products_find_the_outermost_eigenvalues(dtype):
    f, u0 = Parabolic(4, norm=None).to(dtype), torch.randn(1, 4, 8, 8, dtype=dtype)
    flow = Evolution(f, Euler(), steps=3, step_size=0.01)
    thorough = largest_stable_step(flow, u0)
    assert thorough.step <= quick_step_bound(flow, u0).step <= 1.1 * thorough.step


def test_jacobians_of_low_rank_zero_ones_and_overflow():
    one = torch.zeros(5, 5)
    one[0, 0] = -2
    assert min(v.real for v in ritz_values(linear(one), 5)) == pytest.approx(-2, rel=1e-5)
    assert max(map(abs, ritz_values(linear(torch.zeros(5, 5)), 5))) == 0
    assert ritz_values(linear(torch.full((3, 3), math.inf)), 3) == ()


@pytest.mark.parametrize("name", ["hamiltonian", "leapfrog", "parabolic", "lean_hamiltonian"])
def test_estimates_for_networks_are_near_and_never_smaller(network, images, name):
    model = network(name, image_size=8, norm=None, step_size=0.01)
    for start in evolution_inputs(model, images[:1]):
        thorough = largest_stable_step(start.evolution, start.u0).step
        assert 0.98 * thorough <= quick_step_bound(start.evolution, start.u0).step <= 1.25 * thorough


def test_large_images_are_cut_down():
    flow, seen = Evolution(Parabolic(1), Euler(), steps=1, step_size=0.1), []
    flow.dynamics.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[1].shape[-2:]))
    quick_step_bound(flow, torch.randn(1, 1, 100, 40))
    assert set(seen) == {(32, 32)}


def test_the_worst_evolution_is_named_and_the_others_are_counted(network, images):
    said = step_advice(network(step_size=50.0), images)
    assert said.count("\n") == 0
    for part in ("step 50 of Verlet()", "largest stable one, about 0.", "in evolution 'body.", "and in 1 other.",
                 "steps in place of 2", "IMEX"):  # fmt: skip
        assert part in said, part
    only = nn.Sequential(*(Evolution(Parabolic(4), Euler(), steps=1, step_size=h) for h in (1e-3, 1e3)))
    assert "in evolution '1'. Make" in step_advice(only, torch.randn(1, 4, 6, 6))


def test_a_bare_evolution_has_no_name(linear_flow):
    said = step_advice(linear_flow(-50 * torch.eye(2), RK4(), steps=3, h=0.1), torch.ones(1, 2))
    assert said.startswith("the step 0.1 of RK4() lies beyond the largest stable one, about 0.0557. Make it smaller")
    assert "make 6 steps in place of 3" in said


def test_stable_steps_and_methods_without_a_limit_are_silent(network, images, linear_flow, oscillator):
    assert step_advice(network(step_size=0.2), images) == ""
    assert step_advice(linear_flow(-9 * torch.eye(2), ImplicitMidpoint(), h=0.1), torch.ones(1, 2)) == ""
    assert step_advice(oscillator(Euler()), torch.randn(1, 2)) == ""


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_dynamics_that_normalise_are_left_out(network, images, norm):
    assert step_advice(network(step_size=50.0, norm=norm), images) == ""


def test_values_that_overflow_later_leave_the_first_step_to_judge(network, images):
    assert "largest stable one, about 0." in step_advice(network(step_size=1e30, blocks=4), images)
