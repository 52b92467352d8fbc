"""Operators over pixel strips against their sums written out over all pairs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from evolvent.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.operators import (
    DotProduct,
    FractionalLaplacian,
    Gaussian,
    InverseFractionalLaplacian,
    Logarithm,
    NonlocalDiffusion,
    NonlocalOperator,
    Power,
)
from evolvent.operators.integral import pair_sum

GAMMA = 0.57721566490153286
KINDS = {
    "dot": lambda channels, **options: NonlocalDiffusion(channels, "dot", **options),
    "gaussian": lambda channels, **options: NonlocalDiffusion(channels, "gaussian", **options),
    "fractional 1/2": lambda channels, **options: FractionalLaplacian(channels, 0.5, **options),
    "fractional 1/4": lambda channels, **options: FractionalLaplacian(channels, 0.25, **options),
    "riesz 1/2": lambda channels, **options: InverseFractionalLaplacian(channels, 0.5, **options),
    "riesz 1": lambda channels, **options: InverseFractionalLaplacian(channels, 1.0, dim=4, **options),
    "log": lambda channels, **options: InverseFractionalLaplacian(channels, 1.0, **options),
}
DISTANCE = ["fractional 1/2", "fractional 1/4", "riesz 1/2", "riesz 1", "log"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def kernel(op: NonlocalOperator, x: Tensor, y: Tensor) -> Tensor:
    """All pairs, (B, N, M), by differences and with the paper's safe divide and safe logarithm."""
    scale = op.affinity.scale
    if isinstance(op.affinity, DotProduct):
        return scale * x @ y.mT
    if isinstance(op.affinity, Gaussian):
        return (scale * x @ y.mT).exp()
    squared = (x[:, :, None] - y[:, None]).square().sum(-1)
    same = squared == 0
    distance = squared.masked_fill(same, 1.0).sqrt()
    if isinstance(op.affinity, Logarithm):
        return (-2 * scale * distance.log() - GAMMA).masked_fill(same, 0.0)
    assert isinstance(op.affinity, Power)
    return (scale / distance**op.affinity.exponent).masked_fill(same, 0.0)


def naive(op: NonlocalOperator, u: Tensor, v: Tensor) -> Tensor:
    def pooled(a: Tensor) -> Tensor:
        return F.max_pool2d(a, op.subsample, ceil_mode=True)

    mine = u if op.theta is None else op.theta(u)
    others = mine if op.phi is None else op.phi(u)
    x, y = mine.flatten(2).mT, pooled(others).flatten(2).mT
    w = kernel(op, x, y)
    vi, vj = v.flatten(2).mT, pooled(v).flatten(2).mT
    norm = w.shape[2] if op.normaliser == "count" else w.sum(2, keepdim=True)
    if isinstance(op, InverseFractionalLaplacian):
        sums = w @ vj
    else:
        sums = (w[..., None] * (vj[:, None] - vi[:, :, None])).sum(2)
        sums = -sums if isinstance(op, FractionalLaplacian) else sums
    return (op.factor * sums / norm).mT.reshape(v.shape)


def gradients(value: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    weights = torch.linspace(-1, 2, value.numel(), dtype=value.dtype).view_as(value)
    return torch.autograd.grad((weights * value).sum(), inputs)


def assert_is_naive(op: NonlocalOperator, u: Tensor, v: Tensor) -> None:
    inputs = [u.requires_grad_(), v.requires_grad_(), *op.parameters()]
    found, expected = op.at(u)(v), naive(op, u, v)
    assert_close(found, expected, rtol=1e-10, atol=1e-10)
    for a, b in zip(gradients(found, *inputs), gradients(expected, *inputs), strict=True):
        assert_close(a, b, rtol=1e-10, atol=1e-10 * max(1.0, b.abs().max().item()))


@every_kind
@pytest.mark.parametrize("normaliser", ["count", "row_sum"])
@pytest.mark.parametrize("embedding", ["pair", "shared", "none"])
@pytest.mark.parametrize("subsample", [1, 2])
def test_operator_is_its_sum_over_all_pairs(kind, normaliser, embedding, subsample):
    op = KINDS[kind](4, scale=0.3, normaliser=normaliser, embedding=embedding, subsample=subsample).double()
    u, v = torch.randn(2, 2, 4, 5, 6, dtype=torch.float64)
    assert_is_naive(op, u, v)


@every_kind
@pytest.mark.parametrize("pairs", [1, 7, 100, 1500])
def test_blocks_of_any_size_give_the_same(kind, pairs, monkeypatch):
    """Down to one row at a time, and up to several samples."""
    monkeypatch.setattr(pair_sum, "_BLOCK", pairs)
    u, v = torch.randn(2, 3, 4, 5, 4, dtype=torch.float64)
    assert_is_naive(KINDS[kind](4).double(), u, v)


def test_forward_uses_the_kernel_of_its_input():
    op, u = NonlocalDiffusion(4), torch.randn(2, 4, 3, 3)
    assert torch.equal(op(u), op.at(u)(u))


@given(st.sampled_from(list(KINDS)), st.integers(1, 2), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5))
def test_small_maps(kind, batch, pairs, height, width):
    """Down to one pixel and one pair of channels."""
    op = KINDS[kind](2 * pairs).double()
    u, v = torch.randn(2, batch, 2 * pairs, height, width, dtype=torch.float64)
    assert_is_naive(op, u, v)


DEGENERATE = {
    "constant": lambda dtype: torch.full((1, 4, 3, 3), 1.7, dtype=dtype),
    "zeros": lambda dtype: torch.zeros(1, 4, 3, 3, dtype=dtype),
    "two values": lambda dtype: torch.tensor([1.0, 1.0, 2.0], dtype=dtype).expand(1, 4, 3, 3),
    "last digits": lambda dtype: 1 + torch.finfo(dtype).eps * torch.randint(2, (1, 4, 3, 3)).to(dtype),
    "huge": lambda dtype: torch.randn(1, 4, 3, 3).to(dtype) * torch.finfo(dtype).max ** 0.14,
    "tiny": lambda dtype: torch.randn(1, 4, 3, 3).to(dtype) * torch.finfo(dtype).tiny ** 0.5,
}


@settings(max_examples=200)
@given(
    st.sampled_from(list(KINDS)),
    st.sampled_from(["pair", "shared", "none"]),
    st.sampled_from(["count", "row_sum"]),
    st.integers(1, 3),
    st.sampled_from(list(DEGENERATE)),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
)
def test_degenerate_maps_give_finite_results(kind, embedding, normaliser, subsample, what, dtype):
    op = KINDS[kind](4, embedding=embedding, normaliser=normaliser, subsample=subsample).to(dtype)
    u = DEGENERATE[what](dtype).clone().requires_grad_()
    value = op(u)
    assert value.isfinite().all()
    gradient = torch.autograd.grad(value.sum(), [u, *op.parameters()])
    if dtype == torch.float16:  # whose gradients may overflow, as mixed precision expects
        assert not any(g.isnan().any() for g in gradient)
    else:
        assert all(g.isfinite().all() for g in gradient)
    if what in ("constant", "zeros") and not isinstance(op, InverseFractionalLaplacian):
        rounding = 1e-5 if kind == "dot" else 0.0
        assert_close(value, torch.zeros_like(value), rtol=0, atol=rounding)


@given(st.integers(1, 6), st.floats(0.05, 0.95), st.floats(-30, 4), st.booleans())
def test_any_exponent_at_any_distance_is_finite(dim, part, magnitude, inverse):
    op = InverseFractionalLaplacian(2, part * dim / 2, dim=dim) if inverse else FractionalLaplacian(2, part, dim=dim)
    u = (torch.randn(2, 2, 3, 4) * 10**magnitude).requires_grad_()
    value = op(u)
    gradient = torch.autograd.grad(value.sum(), [u, *op.parameters()])
    assert all(t.isfinite().all() for t in (value, *gradient))


def test_sums_that_float16_cannot_hold_stop_at_its_largest_number():
    op = FractionalLaplacian(2, embedding="none", scale=1e8)
    u = torch.tensor([0.0, 0.01, 1.0, 2.0]).expand(1, 2, 1, 4).half()
    assert op(u.float()).abs().max() > torch.finfo(torch.float16).max
    assert op(u).abs().max() == torch.finfo(torch.float16).max


@pytest.mark.parametrize("kind", DISTANCE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_equal_strips_are_left_out(kind, dtype):
    """Strips that are equal to the last digit, among others that are not, in spite of rounding."""
    op = KINDS[kind](6, embedding="none").to(dtype)
    u = 100 + torch.randn(1, 6, 2, 4, dtype=dtype)
    u[..., 2:] = u[..., :2]
    exact = naive(op.double(), u.double(), u.double())
    tight = 1e-9 if dtype == torch.float64 else 1e-3
    assert_close(op.to(dtype)(u).double(), exact, rtol=tight, atol=tight)


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16], ids=str)
@every_kind
def test_low_precision_is_summed_in_float32(kind, low):
    op, u = KINDS[kind](4, embedding="none"), torch.randn(1, 4, 4, 4).to(low)
    u[0, :, 0, 0] = u[0, :, 0, 1] * (1 + torch.finfo(low).eps)  # the power of this distance overflows float16
    exact = op(u.float())
    found = op(u)
    assert found.dtype == low
    assert_close(found, exact.to(low))
    with torch.autocast("cpu", dtype=low):
        assert_close(op(u.float()), exact)
    assert op.to(low)(u).dtype == low


def test_gradients_in_low_precision_under_autocast():
    op, u = FractionalLaplacian(4), torch.randn(1, 4, 4, 4, requires_grad=True)
    (exact,) = torch.autograd.grad(op(u).sum(), u)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = op(u).sum()
    assert_close(torch.autograd.grad(value, u)[0], exact)


def test_both_precisions(dtype):
    for make in KINDS.values():
        assert make(4).to(dtype)(torch.randn(1, 4, 3, 3, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize(
    ("kind", "embedding"), [("gaussian", "shared"), ("gaussian", "none"), ("fractional 1/2", "shared")]
)
def test_symmetric_kernels_diffuse(matrix_of, kind, embedding):
    """-L and (-Delta)^s are symmetric and positive semidefinite, and constants are in their null space."""
    op = KINDS[kind](2, embedding=embedding).double()
    act = op.at(torch.randn(1, 2, 3, 4, dtype=torch.float64))
    M = -op.damping_sign * matrix_of(act, (1, 2, 3, 4))
    assert_close(M, M.T, rtol=0, atol=1e-12 * M.abs().max().item())
    assert torch.linalg.eigvalsh(M).min() >= -1e-12 * M.abs().max()
    assert_close(M.view(24, 2, 12).sum(2), torch.zeros(24, 2, dtype=torch.float64), rtol=0, atol=1e-9)


class Watch(TorchDispatchMode):
    """Keeps the size of the largest tensor that any operation gives."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        tensors = [t for t in (made if isinstance(made, tuple) else (made,)) if isinstance(t, Tensor)]
        self.largest = max([self.largest, *(t.numel() for t in tensors)])
        return made


@every_kind
@pytest.mark.parametrize("normaliser", ["count", "row_sum"])
def test_all_pairs_are_never_held(kind, normaliser, monkeypatch):
    """Neither outside the blocks nor inside; Gaussian means only if attention takes its fused path."""
    blocks, kernel_of = [], pair_sum._kernel
    monkeypatch.setattr(pair_sum, "_BLOCK", 400 * 16)
    monkeypatch.setattr(pair_sum, "_kernel", lambda p, *rest: blocks.append(p.numel()) or kernel_of(p, *rest))
    u = torch.randn(1, 4, 20, 20, requires_grad=True)
    with Watch() as watch:
        KINDS[kind](4, normaliser=normaliser)(u).sum().backward()
    assert watch.largest <= 400 * 8
    assert max(blocks, default=0) <= 400 * 16


def test_backward_evaluates_each_block_once(monkeypatch):
    calls, kernel_of = [], pair_sum._kernel
    monkeypatch.setattr(pair_sum, "_kernel", lambda p, *rest: calls.append(p) or kernel_of(p, *rest))
    value = FractionalLaplacian(4)(torch.randn(1, 4, 8, 8, requires_grad=True))
    assert len(calls) == 1
    value.sum().backward()
    assert len(calls) == 2


@every_kind
@pytest.mark.parametrize("embedding", ["pair", "shared"])
def test_second_derivatives(kind, embedding):
    """Which gradient penalties and analyses need."""
    op = KINDS[kind](4, embedding=embedding, scale=0.5).double()
    u = torch.randn(2, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    inputs, found = [u, *op.parameters()], []
    for value in (op(u), naive(op, u, u)):
        (gradient,) = torch.autograd.grad(value.square().sum(), u, create_graph=True)
        found.append([gradient, *gradients(gradient, *inputs)])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, rtol=1e-8, atol=1e-10 * max(1.0, b.abs().max().item()))


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("subsample", [1, 2])
def test_dot_products_in_any_order_in_memory(subsample, order):
    """Second derivatives, and Jacobians by vmap."""
    op = NonlocalDiffusion(4, "dot", subsample=subsample).double()
    u = torch.randn(2, 4, 3, 4, dtype=torch.float64).contiguous(memory_format=order).requires_grad_()
    assert torch.autograd.gradgradcheck(op, u)
    jacobian = torch.autograd.functional.jacobian(op, u)
    assert_close(torch.func.jacrev(op)(u), jacobian, rtol=0, atol=1e-14)


def test_second_derivative_where_the_exponential_is_saturated():
    op = NonlocalDiffusion(2, "gaussian", embedding="none").double()
    u = torch.full((1, 2, 2, 2), 100.0, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(op(u).sum(), u, create_graph=True)
    assert torch.autograd.grad(gradient.sum(), u)[0].isfinite().all()


def test_multiply_adds_are_counted():
    op, u = InverseFractionalLaplacian(4, embedding="none"), torch.randn(2, 4, 3, 5, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        value = op(u)
        assert counter.get_total_flops() == 2 * 2 * 15 * 15 * (6 + 4)
        value.sum().backward()
    assert counter.get_total_flops() == 2 * 2 * 15 * 15 * (4 * 6 + 3 * 4)


@pytest.mark.parametrize("make", [NonlocalDiffusion, FractionalLaplacian, InverseFractionalLaplacian])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 5}, "must be even"),
        ({"channels": 0}, "even and positive"),
        ({"channels": 4, "scale": 0.0}, "scale must be positive"),
        ({"channels": 4, "scale": float("nan")}, "scale must be positive"),
        ({"channels": 4, "subsample": 0}, "at least 1"),
        ({"channels": 4, "embedding": "both"}, "unknown embedding"),
        ({"channels": 4, "normaliser": "max"}, "unknown normaliser"),
    ],
)
def test_wrong_options_are_refused(make, options, message):
    with pytest.raises((ConfigError, UnknownNameError), match=message):
        make(**options)


def test_orders_out_of_range_are_refused():
    for s in (0.0, 1.0, -0.5, float("nan")):
        with pytest.raises(ConfigError, match="0 < s < 1"):
            FractionalLaplacian(4, s)
    for s in (0.0, 1.1, float("nan")):
        with pytest.raises(ConfigError, match="0 < s <= 1"):
            InverseFractionalLaplacian(4, s)
    with pytest.raises(UnknownNameError, match="unknown affinity"):
        NonlocalDiffusion(4, "cosine")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="exponent"):
        Power(0.0)


@pytest.mark.parametrize("shape", [(1, 6, 4, 4), (4, 4, 4), (1, 4, 2, 9)])
def test_features_that_do_not_fit_are_refused(shape):
    with pytest.raises(ShapeError, match=r"got|shape"):
        NonlocalDiffusion(4, subsample=3)(torch.zeros(shape))


def test_repr_says_the_kernel():
    assert "Power(3, scale=2), embedding='pair'" in repr(FractionalLaplacian(4, scale=2.0))
    assert "DotProduct(scale=1)" in repr(NonlocalDiffusion(4))


@pytest.mark.parametrize(("kind", "parameter"), [("power", 1.5), ("log", 0.0), ("exp", 1.0)])
def test_what_tracers_are_told_of_the_sums_is_so(kind, parameter):
    """Strides, memory and gradients are as announced; and sums in PyTorch's own operations are the same."""
    q, k, v = (torch.rand(2, rows, 6, dtype=torch.float64) for rows in (7, 5, 5))
    offset = torch.rand(2, 1, 1, dtype=torch.float64)
    given = [part.requires_grad_() for part in (q, k, v)]
    torch.library.opcheck(pair_sum.pair_sum, (*given, offset, kind, parameter))
    g = torch.rand(2, 7, 6, dtype=torch.float64)
    for low in (torch.float64, torch.float32):  # products may be made in a higher precision than sums
        rest = (v.detach().to(low), offset.to(low), kind, parameter)
        torch.library.opcheck(pair_sum.pair_sum_backward, (g.to(low), q.detach(), k.detach(), *rest))
    expected = pair_sum.pair_sum(q, k, v, offset, kind, parameter)
    assert_close(pair_sum.whole_pair_sum(q, k, v, offset, kind, parameter), expected)
