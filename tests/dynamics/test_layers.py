from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import jacrev
from torch.testing import assert_close

from evolvent.dynamics import SymmetricLayer
from evolvent.dynamics.layers import ACTIVATIONS, ActivationName

shapes = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))


def layer(before: int, after: int, bias: bool = True, activation: ActivationName = "relu") -> SymmetricLayer:
    made = SymmetricLayer(before, after, bias=bias, activation=activation).double()
    if made.bias is not None:
        nn.init.normal_(made.bias)
    return made


def jacobian(f: nn.Module, u: torch.Tensor) -> torch.Tensor:
    return jacrev(f)(u).reshape(u.numel(), u.numel()).detach()


activations = st.sampled_from(get_args(ActivationName))


@given(shapes, st.booleans(), activations)
def test_jacobian_is_symmetric_positive_semidefinite(shape, bias, activation):
    before, after, height, width = shape
    J = jacobian(layer(before, after, bias, activation), torch.randn(1, before, height, width, dtype=torch.float64))
    assert_close(J, J.T, rtol=0, atol=1e-12)
    assert torch.linalg.eigvalsh(J).min() >= -1e-12 * max(1.0, J.abs().max().item())


@given(shapes, st.integers(1, 3), activations)
def test_layer_is_the_gradient_of_its_potential(shape, batch, activation):
    before, after, height, width = shape
    made = layer(before, after, activation=activation)
    u = torch.randn(batch, before, height, width, dtype=torch.float64, requires_grad=True)
    potential = made.potential(u)
    assert potential.shape == (batch,)
    (gradient,) = torch.autograd.grad(potential.sum(), u)
    assert_close(gradient, made(u), rtol=1e-12, atol=1e-12)


def test_against_the_formula(dtype, tolerance):
    made = SymmetricLayer(3, 5, bias=True, norm="batch").to(dtype).eval()
    K, norm = made.operator.weight, made.norm
    assert made.bias is not None
    nn.init.normal_(made.bias)
    u = torch.randn(2, 3, 6, 6, dtype=dtype)
    inner = norm(nn.functional.conv2d(u, K, padding=1)) + made.bias[:, None, None]
    expected = nn.functional.conv_transpose2d(inner.clamp(min=0), K, padding=1)
    assert_close(made(u), expected, **tolerance)


@pytest.mark.parametrize("norm", [None, "batch", "group"])
def test_layer_takes_vectors(norm):
    made = SymmetricLayer(4, 6, operator="dense", bias=True, norm=norm).double()
    u = torch.randn(3, 4, dtype=torch.float64)
    assert made(u).shape == u.shape
    assert made.potential(u).shape == (3,)
    if norm is None:
        J = jacobian(made, u[:1])
        assert_close(J, J.T)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_is_the_derivative_of_its_antiderivative_and_monotone(name):
    x = torch.linspace(-30, 30, 601, dtype=torch.float64, requires_grad=True)
    sigma, s = ACTIVATIONS[name]
    (slope,) = torch.autograd.grad(s(x).sum(), x)
    assert_close(slope, sigma(x), rtol=1e-12, atol=1e-12)
    assert (sigma(x).diff() >= 0).all()
    assert s(torch.tensor([1e4, -1e4])).isfinite().all()


def test_flow_down_the_layer_contracts():
    """u' = -S(u) brings two states nearer to each other."""
    made, h = layer(2, 3), 1e-3
    u, v = torch.randn(2, 1, 2, 4, 4, dtype=torch.float64)
    start = (u - v).norm()
    with torch.no_grad():
        for _ in range(50):
            u, v = u - h * made(u), v - h * made(v)
    assert (u - v).norm() < start
