import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from evolvent.operators import DenseDiffusion, DepthwiseDiffusion, DiffusionOperator
from evolvent.testing import check_operator

sizes = st.integers(1, 7)
steps = st.sampled_from([0.0, 0.1, 1.0, 50.0])


def generic(operator: DiffusionOperator) -> DiffusionOperator:
    """The operator with weights in no special position."""
    for p in operator.double().parameters():
        nn.init.normal_(p)
    return operator


def example(kind: type, channels: int, height: int = 5, width: int = 6) -> tuple[DiffusionOperator, tuple[int, ...]]:
    shape = (1, channels, height, width) if kind is DepthwiseDiffusion else (1, channels)
    return generic(kind(channels)), shape


kinds = st.sampled_from([DepthwiseDiffusion, DenseDiffusion])


@given(kinds, st.integers(1, 4), sizes, sizes)
def test_contract(kind, channels, height, width):
    L, shape = example(kind, channels, height, width)
    check_operator(L, shape, shape)


@given(kinds, st.integers(1, 3), st.integers(1, 5), st.integers(1, 5))
def test_matrix_is_symmetric_positive_semidefinite(matrix_of, kind, channels, height, width):
    L, shape = example(kind, channels, height, width)
    M = matrix_of(L, shape)
    assert_close(M, M.T, rtol=0, atol=1e-12)
    assert torch.linalg.eigvalsh(M).min() >= -1e-12 * M.abs().max()


@given(kinds, st.integers(1, 4), sizes, sizes, steps)
def test_solve_inverts_the_implicit_step(kind, channels, height, width, h):
    L, shape = example(kind, channels, height, width)
    u = torch.randn(3, *shape[1:], dtype=torch.float64)
    assert_close(L.solve(u + h * L(u), h), u, rtol=1e-10, atol=1e-10)
    solved = L.solve(u, h)
    assert_close(solved + h * L(solved), u, rtol=1e-10, atol=1e-10)


@given(st.integers(1, 3), sizes, sizes)
def test_operator_acts_as_its_symbol(channels, height, width):
    L = generic(DepthwiseDiffusion(channels))
    assert isinstance(L, DepthwiseDiffusion)
    u = torch.randn(2, channels, height, width, dtype=torch.float64)
    symbol = L.symbol(height, width)
    assert symbol.shape == (channels, height, width // 2 + 1)
    assert (symbol >= 0).all()
    expected = torch.fft.irfft2(symbol * torch.fft.rfft2(u), s=(height, width))
    assert_close(L(u), expected, rtol=1e-10, atol=1e-10)


def test_symbol_is_the_sum_of_the_docstring():
    L = generic(DepthwiseDiffusion(2))
    assert isinstance(L, DepthwiseDiffusion)
    xi = 2 * torch.pi * torch.fft.fftfreq(6, dtype=torch.float64)
    eta = 2 * torch.pi * torch.fft.rfftfreq(5, dtype=torch.float64)
    total = torch.zeros(2, 6, 3, dtype=torch.complex128)
    for dx, dy in torch.cartesian_prod(torch.arange(-1, 2), torch.arange(-1, 2)).tolist():
        wave = torch.exp(1j * (dx * xi[:, None] + dy * eta[None]))
        total = total + L.weight.detach()[:, 0, dx + 1, dy + 1, None, None] * wave
    assert_close(L.symbol(6, 5).detach(), total.abs().square(), rtol=1e-12, atol=1e-12)


def test_stencil_is_periodic_as_written():
    L = generic(DepthwiseDiffusion(1))
    u = torch.randn(4, 5, dtype=torch.float64)
    k = L.weight.detach()[0, 0]

    def shifted(v: torch.Tensor, sign: int) -> torch.Tensor:
        terms = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
        return sum((k[dx + 1, dy + 1] * v.roll((-sign * dx, -sign * dy), (0, 1)) for dx, dy in terms), torch.zeros(()))

    assert_close(L(u[None, None])[0, 0].detach(), shifted(shifted(u, 1), -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [(8, 8), (9, 7), (16, 4)])
def test_one_solve_sees_the_whole_image(size):
    L, u = generic(DepthwiseDiffusion(1)), torch.randn(1, 1, *size, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(L.solve(u, 1.0)[0, 0, 2, 3], u)
    assert (gradient.abs() > 1e-12).all()
    (local,) = torch.autograd.grad(L(u)[0, 0, 2, 3], u)
    assert local.count_nonzero() <= 25


def test_fresh_diffusion_keeps_constants_and_damps_the_rest():
    L = DepthwiseDiffusion(3).double()
    u = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    solved = L.solve(u, 5.0)
    assert_close(solved.mean((2, 3)), u.mean((2, 3)), rtol=0, atol=1e-7)  # filters are drawn in float32
    assert solved.norm() < u.norm()


@given(kinds, st.integers(1, 3))
def test_gradients_of_the_solve(kind, channels):
    L, shape = example(kind, channels, 3, 4)
    u = torch.randn(2, *shape[1:], dtype=torch.float64, requires_grad=True)

    def solve(weight, u):
        return torch.func.functional_call(_Solve(L), {"operator.weight": weight}, (u,))

    assert torch.autograd.gradcheck(solve, (L.weight, u))


class _Solve(nn.Module):
    def __init__(self, operator: DiffusionOperator) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return self.operator.solve(u, 0.7)


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("kind", [DepthwiseDiffusion, DenseDiffusion])
def test_low_precision(kind, low):
    """By a converted module, and under autocast, where inputs arrive in low precision."""
    L, shape = example(kind, 3)
    L, u = L.float(), torch.randn(2, *shape[1:], requires_grad=True)
    exact = L.solve(u, 0.5)
    with torch.autocast("cpu", dtype=low):
        found = L.solve(u.to(low), 0.5)
        assert L(u.to(low)).dtype == low
    assert found.dtype == low
    assert_close(found.float(), exact, rtol=0.05, atol=0.05)
    found.float().sum().backward()
    assert u.grad is not None
    assert u.grad.isfinite().all()
    assert L.to(low).solve(u.detach().to(low), 0.5).dtype == low


@pytest.mark.parametrize("kind", [DepthwiseDiffusion, DenseDiffusion])
def test_autocast_leaves_full_precision_to_full_precision(kind):
    L, shape = example(kind, 3)
    L, u = L.float(), torch.randn(2, *shape[1:])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = L.solve(u, 0.5)
    assert_close(found, L.solve(u, 0.5))


def test_both_precisions(dtype):
    for kind in (DepthwiseDiffusion, DenseDiffusion):
        L, shape = example(kind, 3)
        u = torch.randn(shape, dtype=dtype)
        assert L.to(dtype).solve(u, 0.1).dtype == L(u).dtype == dtype


def test_repr_tells_the_channels():
    assert repr(DepthwiseDiffusion(3)) == "DepthwiseDiffusion(3)"
    assert repr(DenseDiffusion(3)) == "DenseDiffusion(3)"
