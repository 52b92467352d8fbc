"""The largest stable step of systems of which it is known, by what a run really does."""

import math

import pytest
import torch

from evolvent.analysis import StabilityWarning, check_step_size, largest_stable_step
from evolvent.analysis.spectrum import Spectrum
from evolvent.analysis.step_size import step_bound, steps_needed
from evolvent.integrators import RK4, AdamsBashforth2, Euler, Heun, ImplicitMidpoint, StoermerVerlet, Verlet


def rotation(value: complex) -> torch.Tensor:
    return torch.tensor([[value.real, -value.imag], [value.imag, value.real]], dtype=torch.float64)


@pytest.mark.parametrize(("method", "limit"), [(Euler(), 2.0), (RK4(), 2.785293563405282), (Heun(), 2.0)])
@pytest.mark.parametrize("rate", [0.5, 40.0])
def test_decay(linear_flow, method, limit, rate):
    u0 = torch.ones(2, 3, dtype=torch.float64)
    bound = largest_stable_step(linear_flow(-rate * torch.eye(3, dtype=torch.float64), method), u0)
    assert bound.step == pytest.approx(limit / rate)
    assert bound.oscillation == math.inf


@pytest.mark.parametrize("method", [Verlet(), StoermerVerlet()])
def test_oscillation(oscillator, method):
    bound = largest_stable_step(oscillator(method, omega=5.0), torch.randn(1, 4))
    assert bound.step == pytest.approx(2 / 5)
    assert bound.decay == math.inf


def test_no_step_of_eulers_is_stable_for_an_oscillation(oscillator):
    bound = largest_stable_step(oscillator(Euler()), torch.randn(1, 4))
    assert bound.step == bound.oscillation == 0.0
    assert bound.decay == math.inf


def test_growth_and_unconditional_methods_bound_no_step(linear_flow):
    grows = linear_flow(torch.eye(2, dtype=torch.float64), Euler())
    assert largest_stable_step(grows, torch.ones(1, 2).double()).step == math.inf
    implicit = linear_flow(-9 * torch.eye(2, dtype=torch.float64), ImplicitMidpoint(), h=0.01)
    assert largest_stable_step(implicit, torch.ones(1, 2).double()).step == math.inf


@pytest.mark.parametrize("method", [Euler(), Heun(), RK4(), AdamsBashforth2()], ids=str)
@pytest.mark.parametrize("degrees", [95, 110, 125, 140, 155, 170, 180])
def test_steps_within_the_bound_stay_bounded(linear_flow, method, degrees):
    matrix = rotation(complex(math.cos(math.radians(degrees)), math.sin(math.radians(degrees))))
    u0 = torch.ones(1, 2, dtype=torch.float64)
    step = largest_stable_step(linear_flow(matrix, method), u0).step
    if step > 0:
        assert linear_flow(matrix, method, steps=400, h=0.999 * step)(u0).norm() < 10


@pytest.mark.parametrize("method", [Euler(), Heun(), RK4(), AdamsBashforth2()], ids=str)
def test_steps_beyond_the_bound_blow_up(linear_flow, method):
    u0 = torch.ones(1, 2, dtype=torch.float64)
    step = largest_stable_step(linear_flow(rotation(-3 + 0j), method), u0).step
    assert linear_flow(rotation(-3 + 0j), method, steps=2000, h=1.02 * step)(u0).norm() > 1e3


def test_without_eigenvalues_the_field_of_values_bounds_the_step(linear_flow):
    evolution = linear_flow(torch.eye(2), RK4())
    bound = step_bound(evolution, [Spectrum(0.0, (), False, (-4.0, 1.0), 2.0)])
    assert bound.decay == pytest.approx(2.785293563405282 / 4)
    assert bound.oscillation == pytest.approx(math.sqrt(8) / 2)


def test_warning_names_the_largest_step_and_the_alternative(linear_flow):
    stiff = linear_flow(-50 * torch.eye(2), Euler(), steps=3, h=0.1)
    with pytest.warns(StabilityWarning, match=r"step 0\.1 of Euler\(\) .* 0\.04\. Make 8 steps or more .* IMEX"):
        bounds = check_step_size(stiff, torch.ones(1, 2))
    assert bounds[""].step == pytest.approx(0.04)


def test_warning_for_an_oscillation_names_no_imex(oscillator):
    with pytest.warns(StabilityWarning, match="make the operators smaller") as caught:
        check_step_size(oscillator(Verlet(), omega=30.0), torch.randn(1, 2))
    assert "IMEX" not in str(caught[0].message)


def test_a_stable_step_and_a_hopeless_method_warn_of_nothing(linear_flow, oscillator, network, images):
    check_step_size(linear_flow(-torch.eye(2), Euler()), torch.ones(1, 2))
    check_step_size(oscillator(Euler()), torch.randn(1, 2))
    assert set(check_step_size(network(step_size=1e-3), images)) == {"body.0", "body.2"}


def test_warning_names_the_evolution_of_a_network(network, images):
    with pytest.warns(StabilityWarning, match="evolution 'body.0': the step 50"):
        check_step_size(network(step_size=50.0, channels=(4,), blocks=1), images)


def test_times_that_are_no_numbers_need_many_steps(linear_flow):
    assert steps_needed(linear_flow(torch.eye(1), Euler(), h=1e308), 1e-300) == 10**15
