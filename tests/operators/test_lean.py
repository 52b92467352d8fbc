import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from evolvent.errors import ConfigError
from evolvent.operators import FivePointConvolution, LeanConvolution, make_operator
from evolvent.testing import check_operator

kinds = st.sampled_from([LeanConvolution, FivePointConvolution])
sizes = st.integers(1, 6)


@given(kinds, sizes, sizes, sizes, sizes, st.integers(1, 3))
def test_contract(kind, before, after, height, width, batch):
    check_operator(kind(before, after), (batch, before, height, width), (batch, after, height, width))


@given(kinds, sizes, sizes, sizes)
def test_contract_of_the_sum(kind, channels, height, width):
    shape = (2, channels, height, width)
    check_operator(kind(channels, channels, form="sum"), shape, shape)


@given(kinds, st.sampled_from(["product", "sum"]), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))
def test_adjoint_is_the_transposed_matrix(matrix_of, kind, form, channels, height, width):
    K, shape = kind(channels, channels, form).double(), (1, channels, height, width)
    assert_close(matrix_of(K.adjoint, shape), matrix_of(K, shape).T, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", [LeanConvolution, FivePointConvolution])
@pytest.mark.parametrize("form", ["product", "sum"])
def test_against_loops(kind, form):
    K = kind(3, 3, form).double()
    k, p = K.kernel().detach()[:, 0], K.pointwise.detach()[:, :, 0, 0]
    u = torch.randn(3, 4, 5, dtype=torch.float64)
    filtered = torch.zeros_like(u)
    for x, y in torch.cartesian_prod(torch.arange(4), torch.arange(5)).tolist():
        for dx, dy in torch.cartesian_prod(torch.arange(-1, 2), torch.arange(-1, 2)).tolist():
            if 0 <= x + dx < 4 and 0 <= y + dy < 5:
                filtered[:, x, y] += k[:, dx + 1, dy + 1] * u[:, x + dx, y + dy]
    coupled = torch.einsum("oi,ixy->oxy", p, filtered if form == "product" else u)
    expected = coupled if form == "product" else filtered + coupled
    assert_close(K(u[None])[0].detach(), expected, rtol=0, atol=1e-12)


def test_five_weights_make_a_cross():
    K = FivePointConvolution(2, 2)
    with torch.no_grad():
        K.cross.copy_(torch.arange(1.0, 11).view(2, 5))
    assert K.kernel()[0, 0].tolist() == [[0, 1, 0], [2, 3, 4], [0, 5, 0]]
    assert K.kernel()[1, 0].tolist() == [[0, 6, 0], [7, 8, 9], [0, 10, 0]]
    K(torch.randn(1, 2, 4, 4)).square().sum().backward()
    assert K.cross.grad is not None
    assert K.cross.grad.count_nonzero() == 10


@pytest.mark.parametrize(
    ("kind", "weights"), [("full", 9216), ("lean", 1312), ("lean5", 1184), ("lean-sum", 1312), ("lean5-sum", 1184)]
)
def test_number_of_weights(kind, weights):
    assert sum(p.numel() for p in make_operator(kind, 32, 32).parameters()) == weights


@pytest.mark.parametrize("kind", ["full", "lean", "lean5", "lean-sum", "lean5-sum", "multigrid"])
def test_initial_weights_double_the_mean_square(kind):
    """So that kinds can be exchanged without another step size or learning rate; ReLU then halves it."""
    u = torch.randn(4, 64, 24, 24)
    with torch.no_grad():
        image = make_operator(kind, 64, 64)(u)
    assert image[..., 2:-2, 2:-2].square().mean() == pytest.approx(2, rel=0.4)


@pytest.mark.parametrize("kind", [LeanConvolution, FivePointConvolution])
def test_sum_between_different_widths_is_refused(kind):
    with pytest.raises(ConfigError, match="got 2 and 3"):
        kind(2, 3, form="sum")


def test_both_precisions(dtype, tolerance):
    for kind in (LeanConvolution, FivePointConvolution):
        K = kind(3, 5).to(dtype)
        u, v = torch.randn(2, 3, 6, 7, dtype=dtype), torch.randn(2, 5, 6, 7, dtype=dtype)
        assert K(u).dtype == K.adjoint(v).dtype == dtype
        assert_close((K(u) * v).mean(), (u * K.adjoint(v)).sum() / v.numel(), **tolerance)


def test_repr_tells_the_sizes():
    assert repr(LeanConvolution(2, 3)) == "LeanConvolution(2, 3, form='product')"
