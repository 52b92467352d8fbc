import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from evolvent.errors import ConfigError
from evolvent.operators import Convolution, Pointwise
from evolvent.testing import check_operator

sizes = st.integers(1, 6)


def dense(act, shape: tuple[int, ...]) -> torch.Tensor:
    """The matrix of a linear map, column by column."""
    count = torch.Size(shape).numel()
    return torch.stack([act(e.view(shape)).flatten() for e in torch.eye(count, dtype=torch.float64)], dim=1)


@given(sizes, sizes, sizes, sizes, st.sampled_from([1, 3, 5]), st.integers(1, 3))
def test_contract(before, after, height, width, kernel, batch):
    check_operator(Convolution(before, after, kernel), (batch, before, height, width), (batch, after, height, width))


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 3, 5]))
def test_adjoint_is_the_transposed_matrix(before, after, height, width, kernel):
    K = Convolution(before, after, kernel).double()
    with torch.no_grad():
        forward = dense(K, (1, before, height, width))
        adjoint = dense(K.adjoint, (1, after, height, width))
    assert_close(adjoint, forward.T, rtol=0, atol=1e-13)


def test_matrix_has_the_stencil_of_the_docstring():
    """(K u)_o(x) = sum_i sum_d k_oi(d) u_i(x + d), zero outside, written as loops."""
    K = Convolution(2, 3, 3).double()
    u = torch.randn(2, 4, 5, dtype=torch.float64)
    expected = torch.zeros(3, 4, 5, dtype=torch.float64)
    for o, i, x, y in torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(4), torch.arange(5)).tolist():
        for dx in (-1, 0, 1):
            for dy in (-1, 0, 1):
                if 0 <= x + dx < 4 and 0 <= y + dy < 5:
                    expected[o, x, y] += K.weight[o, i, dx + 1, dy + 1].item() * u[i, x + dx, y + dy]
    assert_close(K(u[None])[0].detach(), expected, rtol=0, atol=1e-12)


def test_adjoint_identity_by_dtype(dtype, tolerance):
    K = Convolution(3, 5).to(dtype)
    u, v = torch.randn(2, 3, 6, 7, dtype=dtype), torch.randn(2, 5, 6, 7, dtype=dtype)
    assert_close((K(u) * v).mean(), (u * K.adjoint(v)).sum() / v.numel(), **tolerance)


@pytest.mark.parametrize("kernel", [2, 4])
def test_even_kernels_are_refused(kernel):
    with pytest.raises(ConfigError, match=f"must be odd, got {kernel}"):
        Convolution(1, 1, kernel)


def test_repr_tells_the_sizes():
    assert repr(Convolution(2, 3, 5)) == "Convolution(2, 3, kernel_size=5)"


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (3, 4, 5, 2), (0, 4, 3, 3)])
def test_is_the_convolution(shape, dtype):
    mine, reference = Pointwise(4, 6).to(dtype), nn.Conv2d(4, 6, 1, bias=False).to(dtype)
    reference.load_state_dict(mine.state_dict())
    u = torch.randn(shape, dtype=dtype, requires_grad=True)
    found, expected = mine(u), reference(u)
    assert_close(found, expected)
    weights = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad((weights * found).sum(), [u, mine.weight]),
        torch.autograd.grad((weights * expected).sum(), [u, reference.weight]),
        strict=True,
    ):
        assert_close(a, b)


def test_any_memory_layout():
    mix, u = Pointwise(4, 3), torch.randn(2, 4, 5, 6)
    assert_close(mix(u.contiguous(memory_format=torch.channels_last)), mix(u))
