from itertools import pairwise
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.dynamics import Parabolic
from evolvent.dynamics.layers import ActivationName
from evolvent.integrators import Euler

kinds = st.sampled_from(["dense", "full", "lean", "lean5", "multigrid"])
activations = st.sampled_from(get_args(ActivationName))


def pair(kind: str, channels: int) -> torch.Tensor:
    return torch.randn(2, 1, channels, *([] if kind == "dense" else [4, 5]), dtype=torch.float64)


def stable_step(jacobian, f: Parabolic, u: torch.Tensor) -> float:
    """2 / |K|^2, as sigma' is at most 1."""
    K = f.layer.operator
    return 2 / torch.linalg.matrix_norm(jacobian(lambda x: K.adjoint(K(x)), u), 2).item()


@given(kinds, st.integers(1, 3), activations, st.booleans())
def test_euler_steps_within_the_limit_contract(jacobian, randomised, kind, channels, activation, bias):
    f = randomised(Parabolic(channels, operator=kind, activation=activation, bias=bias))
    u, v = pair(kind, channels)
    h, method, distances = stable_step(jacobian, f, u), Euler(), [(u - v).norm().item()]
    with torch.no_grad():
        for _ in range(200):
            u, v = method.step(f, 0.0, u, h), method.step(f, 0.0, v, h)
            distances.append((u - v).norm().item())
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(distances))


def test_euler_beyond_the_limit_does_not(jacobian, randomised):
    f = randomised(Parabolic(2, activation="identity"))
    u, v = pair("full", 2)
    h, start = 1.2 * stable_step(jacobian, f, u), (u - v).norm()
    with torch.no_grad():
        for _ in range(200):
            u, v = (Euler().step(f, 0.0, x, h) for x in (u, v))
    assert (u - v).norm() > start


@given(kinds, st.integers(1, 3), activations)
def test_energy_falls_and_is_what_the_flow_descends(jacobian, randomised, kind, channels, activation):
    f = randomised(Parabolic(channels, 3, operator=kind, activation=activation, bias=True))
    u = pair(kind, channels)[0].requires_grad_()
    (gradient,) = torch.autograd.grad(f.energy(u).sum(), u)
    assert_close(f(0.0, u), -gradient, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        after = Euler().step(f, 0.0, u, 0.5 * stable_step(jacobian, f, u))
    assert f.energy(after) <= f.energy(u) + 1e-12


@pytest.mark.parametrize("norm", [None, "batch", "group"])
def test_against_the_formula(randomised, norm):
    f = randomised(Parabolic(3, 8, norm=norm, bias=True))
    u, K = torch.randn(2, 3, 4, 5, dtype=torch.float64), f.layer.operator.weight
    inner = F.conv2d(u, K, padding=1)
    if norm is not None:
        axes = (0, 2, 3) if norm == "batch" else (1, 2, 3)
        mean, var = inner.mean(axes, keepdim=True), inner.var(axes, keepdim=True, unbiased=False)
        scale, shift = (p[:, None, None] for p in (f.layer.norm.weight, f.layer.norm.bias))
        inner = (inner - mean) / (var + 1e-5).sqrt() * scale + shift
    expected = -F.conv_transpose2d((inner + f.layer.bias[:, None, None]).relu(), K, padding=1)
    assert_close(f(0.0, u), expected)


def test_dense_against_the_formula(dtype, tolerance):
    f = Parabolic(4, 6, operator="dense", activation="tanh").to(dtype)
    u, K = torch.randn(3, 4, dtype=dtype), f.layer.operator.weight
    assert_close(f(0.0, u), -torch.tanh(u @ K.T) @ K, **tolerance)
