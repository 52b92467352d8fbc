"""Constants of fractional operators, and powers of the Laplacian on a grid."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special
from torch.testing import assert_close

from evolvent.errors import ConfigError, UnknownNameError
from evolvent.operators import (
    SpatialFractionalLaplacian,
    SpatialInverseLaplacian,
    fractional_constant,
    logarithmic_constant,
    riesz_constant,
)
from evolvent.testing import check_operator

orders = st.floats(0.05, 0.95)
boundaries = pytest.mark.parametrize("boundary", ["periodic", "reflecting"])


@given(st.integers(1, 4), orders)
def test_constants_are_those_of_the_paper(n, s):
    expected = 4**s * special.gamma(n / 2 + s) / (math.pi ** (n / 2) * abs(special.gamma(-s)))
    assert fractional_constant(n, s) == pytest.approx(expected, rel=1e-12)
    order = s * n / 2
    expected = special.gamma(n / 2 - order) / (4**order * math.pi ** (n / 2) * special.gamma(order))
    assert riesz_constant(n, order) == pytest.approx(expected, rel=1e-12)
    expected = 1 / ((4 * math.pi) ** (n / 2) * special.gamma(n / 2))
    assert logarithmic_constant(n) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("s", [0.25, 0.5, 0.75])
def test_constant_makes_the_symbol_a_power(s):
    r"""In one dimension, :math:`c \int (1 - \cos y) |y|^{-1-2s} dy = 1`."""
    near, _ = integrate.quad(lambda y: (1 - math.cos(y)) * y ** (-1 - 2 * s), 0, 1)
    tail, _ = integrate.quad(lambda y: y ** (-1 - 2 * s), 1, math.inf, weight="cos", wvar=1.0)
    assert 2 * fractional_constant(1, s) * (near + 1 / (2 * s) - tail) == pytest.approx(1, rel=1e-6)


def test_orders_out_of_range_are_refused():
    with pytest.raises(ConfigError, match="0 < s < 1"):
        fractional_constant(2, 1.0)
    with pytest.raises(ConfigError, match="0 < s < 1"):
        riesz_constant(2, 1.0)
    with pytest.raises(ConfigError, match="dimension 1 or more"):
        logarithmic_constant(0)


@boundaries
@given(orders, st.integers(1, 6), st.integers(1, 6))
def test_operator_keeps_the_contract(boundary, s, height, width):
    shape = (2, 2, height, width)
    for kind in (SpatialFractionalLaplacian, SpatialInverseLaplacian):
        check_operator(kind(s, boundary=boundary), shape, shape)


@boundaries
@given(orders, st.integers(0, 3), st.integers(0, 3))
def test_eigenfunctions(boundary, s, a, b):
    height, width, spacing = 8, 9, 0.5
    x, y = (torch.arange(n, dtype=torch.float64) for n in (height, width))
    if boundary == "periodic":
        xi, eta = 2 * math.pi * a / height, 2 * math.pi * b / width
        wave = torch.cos(xi * x)[:, None] * torch.sin(eta * y + 0.3)
    else:
        xi, eta = math.pi * a / height, math.pi * b / width
        wave = torch.cos(xi * (x + 0.5))[:, None] * torch.cos(eta * (y + 0.5))
    squared = (xi**2 + eta**2) / spacing**2
    applied = SpatialFractionalLaplacian(s, boundary=boundary, spacing=spacing)(wave[None, None])
    assert_close(applied[0, 0], squared**s * wave, rtol=0, atol=1e-12 * max(1, squared))
    inverse = SpatialInverseLaplacian(s, boundary=boundary, spacing=spacing)(wave[None, None])
    expected = squared**-s * wave if squared else torch.zeros_like(wave)
    assert_close(inverse[0, 0], expected, rtol=0, atol=1e-12 * max(1, squared**-s if squared else 1))


@boundaries
def test_order_one_is_the_laplacian(boundary):
    u = torch.cos(2 * math.pi * (torch.arange(64, dtype=torch.float64) + 0.5) / 64).expand(1, 1, 64, 64)
    stencil = 2 * u - u.roll(1, -1) - u.roll(-1, -1)
    applied = SpatialFractionalLaplacian(1.0, boundary=boundary)(u)
    assert_close(applied[..., 1:-1], stencil[..., 1:-1], rtol=1e-2, atol=1e-8)


@boundaries
@given(orders, st.integers(1, 7), st.integers(1, 7))
def test_inverse_undoes_the_power_without_the_mean(boundary, s, height, width):
    u = torch.randn(2, 3, height, width, dtype=torch.float64)
    there, back = SpatialFractionalLaplacian(s, boundary=boundary), SpatialInverseLaplacian(s, boundary=boundary)
    free = u - u.mean((2, 3), keepdim=True)
    assert_close(back(there(u)), free, rtol=1e-10, atol=1e-10)
    assert_close(there(back(u)), free, rtol=1e-10, atol=1e-10)


@boundaries
@pytest.mark.parametrize("h", [0.0, 0.1, 50.0])
def test_solve_inverts_the_implicit_step(boundary, h):
    L, u = SpatialFractionalLaplacian(0.7, boundary=boundary), torch.randn(2, 3, 5, 8, dtype=torch.float64)
    assert_close(L.solve(u + h * L(u), h), u, rtol=1e-10, atol=1e-10)


@boundaries
def test_matrix_is_symmetric_positive_semidefinite(matrix_of, boundary):
    M = matrix_of(SpatialFractionalLaplacian(0.3, boundary=boundary), (1, 1, 4, 5))
    assert_close(M, M.T, rtol=0, atol=1e-12)
    assert torch.linalg.eigvalsh(M).min() >= -1e-12


def test_low_precision_and_wrong_options():
    assert SpatialFractionalLaplacian(0.5)(torch.randn(1, 1, 4, 4).half()).dtype == torch.float16
    for options in ({"s": 0.0}, {"s": 1.5}, {"spacing": 0.0}):
        with pytest.raises(ConfigError, match="got"):
            SpatialFractionalLaplacian(**options)
    with pytest.raises(UnknownNameError, match="unknown boundary 'open'"):
        SpatialFractionalLaplacian(boundary="open")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="got"):
        SpatialInverseLaplacian(-1.0)
    assert repr(SpatialInverseLaplacian(0.5)) == "SpatialInverseLaplacian(0.5, boundary='periodic', spacing=1)"
