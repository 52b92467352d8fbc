"""Eigenvalues against those of the dense Jacobian, found without it."""

import numpy as np
import pytest
import torch

from evolvent.analysis import spectra, spectrum_at
from evolvent.analysis.spectrum import Spectrum
from evolvent.dynamics import Dynamics, Hamiltonian, Residual, SecondOrder
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, Leapfrog, Verlet


def ordered(values) -> np.ndarray:
    return np.array(sorted(np.round(np.asarray(values), 9), key=lambda v: (v.real, v.imag)))


def test_all_eigenvalues_of_a_small_state():
    f, u = Residual(2).double().eval(), torch.randn(1, 2, 4, 4, dtype=torch.float64)
    dense = torch.autograd.functional.jacobian(lambda x: f(0.0, x.reshape(u.shape)).flatten(), u.flatten())
    found = spectrum_at(f, 0.0, u)
    assert found.complete
    np.testing.assert_allclose(ordered(found.eigenvalues), ordered(torch.linalg.eigvals(dense).tolist()), atol=1e-7)
    symmetric = torch.linalg.eigvalsh((dense + dense.mT) / 2)
    assert found.real_extent == pytest.approx((symmetric[0].item(), symmetric[-1].item()))
    assert found.imaginary_extent == pytest.approx(torch.linalg.svdvals((dense - dense.mT) / 2)[0].item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outermost_eigenvalues_without_the_matrix(dtype):
    f, u = Residual(3).to(dtype).eval(), torch.randn(1, 3, 6, 6, dtype=dtype)
    full, found = spectrum_at(f, 0.0, u), spectrum_at(f, 0.0, u, dense_up_to=0)
    assert not found.complete
    assert found.radius == pytest.approx(full.radius, rel=1e-3)
    assert found.abscissa == pytest.approx(full.abscissa, rel=1e-3, abs=1e-3)
    for pick in (lambda s: min(v.real for v in s.eigenvalues), lambda s: max(v.imag for v in s.eigenvalues)):
        assert pick(found) == pytest.approx(pick(full), rel=1e-3)
    assert found.real_extent == pytest.approx(full.real_extent, rel=1e-3)
    assert found.imaginary_extent == pytest.approx(full.imaginary_extent, rel=1e-3)


def test_field_of_values_holds_the_eigenvalues():
    found = spectrum_at(Residual(3).double().eval(), 0.0, torch.randn(1, 3, 5, 5, dtype=torch.float64))
    low, high = found.real_extent
    assert all(low - 1e-9 <= v.real <= high + 1e-9 for v in found.eigenvalues)
    assert all(abs(v.imag) <= found.imaginary_extent + 1e-9 for v in found.eigenvalues)


def test_hamiltonian_systems_oscillate():
    evolution = Evolution([Hamiltonian(2).double() for _ in range(7)], Verlet(), step_size=0.1)
    found = spectra(evolution, torch.randn(2, 4, 4, 4, dtype=torch.float64), points=3)
    assert [spectrum.time for spectrum in found] == pytest.approx([0.0, 0.3, 0.6])
    for spectrum in found:
        assert len(spectrum.eigenvalues) == 64
        assert max(abs(v.real) for v in spectrum.eigenvalues) < 1e-6
        assert max(abs(v.imag) for v in spectrum.eigenvalues) > 0.1


def test_second_order_systems_are_linearised_whole():
    evolution = Evolution(SecondOrder(2).double(), Leapfrog(), steps=2, step_size=0.1)
    [first, *_] = spectra(evolution, torch.randn(1, 2, 4, 4, dtype=torch.float64))
    assert len(first.eigenvalues) == 64  # position and velocity
    assert max(abs(v.real) for v in first.eigenvalues) < 1e-6


class Zero(Dynamics):
    def forward(self, t, u):
        return 0 * u


class Endless(Dynamics):
    def forward(self, t, u):
        return u * torch.inf


def test_zero_and_overflowing_jacobians_have_an_answer():
    found = spectrum_at(Zero(), 0.0, torch.ones(1, 300))
    assert found.radius == pytest.approx(0.0, abs=1e-9)
    assert spectrum_at(Endless(), 0.0, torch.ones(1, 3)).eigenvalues == ()
    assert Spectrum(0.0, (), True, (-1.0, 2.0), 3.0).abscissa == 2.0


def test_spectra_leave_the_mode_alone():
    f = Residual(2)
    before = f.norm1.running_mean.clone()
    spectra(Evolution([f], Euler()), torch.randn(3, 2, 4, 4))
    assert f.training
    assert torch.equal(before, f.norm1.running_mean)
