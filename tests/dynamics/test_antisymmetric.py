from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.dynamics import Antisymmetric
from evolvent.dynamics.layers import ActivationName
from evolvent.errors import ConfigError, UnknownNameError

kinds = st.sampled_from(["dense", "full", "lean", "lean5", "lean-sum", "multigrid"])
dampings = st.sampled_from([0.0, 0.3, 2.0])


def features(kind: str, channels: int, size: int) -> torch.Tensor:
    return torch.randn(1, channels, *([] if kind == "dense" else [size, size + 1]), dtype=torch.float64)


@given(kinds, st.integers(1, 4), st.integers(1, 3), dampings)
def test_spectrum_of_the_linear_part_has_real_part_minus_damping(jacobian, randomised, kind, channels, size, damping):
    f = randomised(Antisymmetric(channels, damping=damping, operator=kind))
    J = jacobian(f.linear, features(kind, channels, size))
    eye = torch.eye(len(J), dtype=J.dtype)
    assert_close(J + J.T, -2 * damping * eye, rtol=0, atol=1e-12)
    assert_close(torch.linalg.eigvals(J).real, torch.full((len(J),), -damping, dtype=J.dtype), rtol=0, atol=1e-9)


@given(kinds, st.integers(1, 3), dampings, st.sampled_from(get_args(ActivationName)), st.booleans())
def test_spectrum_of_the_jacobian_is_in_the_left_half_plane(
    jacobian, randomised, kind, channels, damping, activation, bias
):
    f = randomised(Antisymmetric(channels, damping=damping, operator=kind, activation=activation, bias=bias))
    J = jacobian(lambda u: f(0.0, u), features(kind, channels, 2))
    assert torch.linalg.eigvals(J).real.max() < 1e-6  # a defective zero splits like the root of rounding


@pytest.mark.parametrize("norm", [None, "batch", "group"])
def test_against_the_formula(randomised, norm):
    f = randomised(Antisymmetric(3, damping=0.2, norm=norm, bias=True)).eval()
    u, K = torch.randn(2, 3, 4, 5, dtype=torch.float64), f.operator.weight
    linear = F.conv2d(u, K, padding=1) - F.conv_transpose2d(u, K, padding=1) - 0.2 * u
    inner = (linear if norm is None else f.norm(linear)) + f.bias[:, None, None]
    assert_close(f(0.0, u), inner.tanh())


def test_dense_against_the_formula(dtype, tolerance):
    f = Antisymmetric(4, damping=0.5, operator="dense", bias=True).to(dtype)
    torch.nn.init.normal_(f.bias)
    u, K = torch.randn(3, 4, dtype=dtype), f.operator.weight
    assert_close(f(0.0, u), torch.tanh(u @ (K - K.T - 0.5 * torch.eye(4, dtype=dtype)).T + f.bias), **tolerance)


@pytest.mark.parametrize("damping", [-0.1, float("nan"), float("inf")])
def test_negative_damping_is_refused(damping):
    with pytest.raises(ConfigError, match="damping must be finite and at least 0"):
        Antisymmetric(2, damping=damping)


def test_unknown_activation_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'tanh'"):
        Antisymmetric(2, activation="tan")  # type: ignore[arg-type]


def test_repr_tells_the_damping():
    assert "damping=0.1, activation='tanh'" in repr(Antisymmetric(2, damping=0.1))
