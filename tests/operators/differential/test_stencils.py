"""Stencils against polynomials, Gaussians and rotations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolvent.errors import ConfigError
from evolvent.groups import cyclic, dihedral, multi_indices
from evolvent.operators.differential import FiniteDifferences, FittedGaussian, GaussianDerivatives, rotated_stencils

KINDS = [FiniteDifferences(5), FiniteDifferences(7, accuracy=2), GaussianDerivatives(7, 0.9), FittedGaussian(5)]


@given(st.sampled_from([1, 3, 5, 7, 9]), st.data())
def test_differences_are_exact_for_polynomials(size, data):
    order = data.draw(st.integers(0, size - 1))
    x, weights = np.arange(size) - size // 2, FiniteDifferences(size).along_axis(order)
    for power in range(size):
        expected = math.factorial(order) if power == order else 0.0
        assert weights @ (x.astype(float) ** power) == pytest.approx(expected, abs=1e-6 * math.factorial(order))


@pytest.mark.parametrize("accuracy", [2, 4, 6])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_differences_have_the_accuracy_they_state(order, accuracy):
    weights = FiniteDifferences(11, accuracy).along_axis(order)
    x = np.arange(11) - 5
    errors = [abs(weights @ np.exp(h * x) / h**order - 1) for h in (0.2, 0.1)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(accuracy, abs=0.1)


def gaussian_derivative_of_wave(order, sigma, xi):
    return (1j * xi) ** order * math.exp(-((sigma * xi) ** 2) / 2)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_sigma_is_the_standard_deviation(order):
    """The effect on waves is that of a Gaussian of this width, exactly where nothing is cut off."""
    wave = np.exp(1j * 0.4 * (np.arange(21) - 10))
    expected = gaussian_derivative_of_wave(order, 1.3, 0.4)
    assert GaussianDerivatives(21, 1.3).along_axis(order) @ wave == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_fitted_weights_are_nearer_than_sampled_ones_in_a_small_stencil(order):
    wave, expected = np.exp(1j * 0.4 * (np.arange(5) - 2)), gaussian_derivative_of_wave(order, 0.8, 0.4)
    fitted = abs(FittedGaussian(5, 0.8).along_axis(order) @ wave - expected)
    assert fitted < 0.01 * abs(expected)
    assert fitted < 0.3 * abs(GaussianDerivatives(5, 0.8).along_axis(order) @ wave - expected)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_derivatives_of_the_plane_have_their_axes(kind):
    """d/dx1 goes right and d/dx2 up."""
    right, up = kind.stencils(1)[1:]
    rows, columns = np.mgrid[: kind.size, : kind.size] - kind.size // 2
    assert (right * columns).sum() == pytest.approx(-(up * rows).sum())
    assert (right * columns).sum() > 0.5
    assert (right * rows).sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("group", [cyclic(8), dihedral(4)], ids=str)
def test_stencils_of_quarter_turns_are_turned_stencils(kind, group):
    """A derivative in the turned frame, of the turned image, is the derivative of the image."""
    found = rotated_stencils(group, 3, kind).reshape(group.order, -1, kind.size, kind.size)
    for g in group.grid_symmetries:
        turned = found[0][:, ::-1] if g >= group.rotations else found[0]
        turned = np.rot90(turned, round(4 * (g % group.rotations) / group.rotations), (1, 2))
        np.testing.assert_allclose(found[g], turned, atol=1e-13)


def test_orders_are_of_one_size():
    found = rotated_stencils(cyclic(4), 4, FittedGaussian())
    norms = np.array([np.square(found[0][[i + j == m for i, j in multi_indices(4)]]).sum(1).mean() for m in range(5)])
    np.testing.assert_allclose(norms, 1)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: FiniteDifferences(4), "odd, got 4. Use 3 or 5"),
        (lambda: FittedGaussian("5"), "size must be a whole number"),  # pyright: ignore[reportArgumentType]
        (lambda: FiniteDifferences(5, 2.0), "accuracy must be a whole"),  # pyright: ignore[reportArgumentType]
        (lambda: FittedGaussian(5).stencils(2.5), "order must be a whole"),  # pyright: ignore[reportArgumentType]
        (lambda: FiniteDifferences(3).stencils(3), "at least 5 pixels"),
        (lambda: FiniteDifferences(5, 3), "2, 4, 6"),
        (lambda: FiniteDifferences(5, 4).stencils(3), "need 7 pixels"),
        (lambda: GaussianDerivatives(5, 0), "sigma"),
        (lambda: FittedGaussian(5, 1, -1), "smoothness"),
        (lambda: FittedGaussian(3).stencils(4), "at least 5 pixels"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        wrong()
