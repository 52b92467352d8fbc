r"""Sums over all pairs of pixel strips, :math:`\sum_j f(q_i \cdot k_j)\, v_j`, in row blocks.

No tensor of all pairs is ever held: the kernel is evaluated a block at a time, and once more in the backward pass,
where one evaluation serves the gradients of ``q``, ``k`` and ``v``. Registered with PyTorch as operations of their own,
so that ``torch.export`` and ``torch.compile`` take them whole. Only second derivatives, which are recorded operation by
operation, hold all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

_BLOCK = 1 << 19  # pairs at a time: large enough for matrix products, small enough for the cache

Window = tuple[slice, slice]


def nearest(dtype: torch.dtype, a: float) -> float:
    r"""The product up to which strips count as equal; :math:`p^{-a/2}` and its derivative stay finite above it."""
    return max(2.0**-25, (torch.finfo(dtype).max * 1e-8) ** (-2 / (a + 2)))


@torch.library.custom_op("evolvent::pair_sum", mutates_args=())
def pair_sum(q: Tensor, k: Tensor, v: Tensor, offset: Tensor, kind: str, parameter: float) -> Tensor:
    r""":math:`\sum_j f(q_i \cdot k_j)\, v_j` for all :math:`i`, with gradients for ``q``, ``k`` and ``v``.

    Products for powers and logarithms are squared distances, in units in which :func:`nearest` cannot be told from
    zero; :math:`f` is 0 up to there.

    Args:
        q, k: (B, N, D) and (B, M, D), in the precision that products are made in.
        v: (B, M, C), in the precision of the result.
        offset: (B, 1, 1), :math:`b`.
        kind: ``"power"`` is :math:`f(p) = p^{-a/2}`, ``"log"`` is :math:`\log p + b`, ``"exp"`` is :math:`e^p`,
            saturated where its square would overflow.
        parameter: :math:`a`; 0 for the logarithm.

    Shape: (B, N, C).
    """
    with torch.autocast(v.device.type, enabled=False):
        sums, turned_k = v.new_empty(q.shape[0], q.shape[1], v.shape[2]), k.mT.contiguous()
        wide, p = _scratch(q, k, q.dtype, v.dtype)
        for samples, rows in _windows(q, k):
            products = _products(q[samples, rows], turned_k[samples], wide, p)
            w = _kernel(products, products, offset[samples], kind, parameter)
            sums[samples, rows] = torch.bmm(w, v[samples])
        return sums


@torch.library.custom_op("evolvent::pair_sum_backward", mutates_args=())
def pair_sum_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, offset: Tensor, kind: str, parameter: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of :func:`pair_sum` for ``q``, ``k`` and ``v``, given that of the sums."""
    with torch.autocast(v.device.type, enabled=False):
        # products run faster along the long side of a block
        turned_k, turned_v, turned_g, turned_q = (t.mT.contiguous() for t in (k, v, g, q.to(v.dtype)))
        low_k, dq = k.to(v.dtype), q.new_empty(q.shape, dtype=v.dtype)
        dk, dv = torch.zeros_like(turned_k, dtype=v.dtype), torch.zeros_like(turned_v)
        wide, p, w, pairs = _scratch(q, k, q.dtype, v.dtype, v.dtype, v.dtype)
        for samples, rows in _windows(q, k):
            products = _products(q[samples, rows], turned_k[samples], wide, p)
            kernel = _kernel(products, _part(w, products), offset[samples], kind, parameter)
            dv[samples].baddbmm_(turned_g[samples, :, rows], kernel)
            change = torch.bmm(g[samples, rows], turned_v[samples], out=_part(pairs, products))
            change.mul_(_slope(products, kernel, kind, parameter))
            dq[samples, rows] = torch.bmm(change, low_k[samples])
            dk[samples].baddbmm_(turned_q[samples, :, rows], change)
        # in the order of memory that tracers are told of
        return dq.to(q.dtype), k.new_empty(k.shape).copy_(dk.mT), v.new_empty(v.shape).copy_(dv.mT)


def _windows(q: Tensor, k: Tensor) -> Iterator[Window]:
    """Samples and rows to treat at a time: several small maps, or some rows of a large one."""
    batch, rows, columns = q.shape[0], q.shape[1], k.shape[1]
    samples, height = _block_shape(rows, columns)
    for b in range(0, batch, samples):
        for r in range(0, rows, height):
            yield slice(b, b + samples), slice(r, r + height)


def _block_shape(rows: int, columns: int) -> tuple[int, int]:
    return max(1, _BLOCK // (rows * columns)), max(1, min(rows, _BLOCK // columns))


def _scratch(q: Tensor, k: Tensor, *dtypes: torch.dtype) -> list[Tensor]:
    """Memory for the largest block, once for each precision in turn; fresh memory costs as much as arithmetic."""
    samples, height = _block_shape(q.shape[1], k.shape[1])
    shape = (min(samples, q.shape[0]), height, k.shape[1])
    return [q.new_empty(shape, dtype=dtype) for dtype in dtypes]


def _part(scratch: Tensor, like: Tensor) -> Tensor:
    return scratch[: like.shape[0], : like.shape[1]]


def _products(q: Tensor, turned_k: Tensor, wide: Tensor, low: Tensor) -> Tensor:
    """All products of a block, made in the precision of ``wide`` and given in that of ``low``."""
    part = _part(wide, q)
    torch.bmm(q, turned_k, out=part)
    return part if wide.dtype == low.dtype else _part(low, q).copy_(part)


def _kernel(p: Tensor, out: Tensor, offset: Tensor, kind: str, a: float) -> Tensor:
    """:math:`f(p)`. What is too near is moved to infinity in ``p``: comparing costs more than computing."""
    if kind == "exp":
        return torch.clamp(p, max=_largest_exponent(p.dtype), out=out).exp_()
    torch.threshold_(p, nearest(p.dtype, a), math.inf)
    if kind == "log":
        return torch.log(p, out=out).add_(offset).nan_to_num_(nan=math.nan, posinf=0.0)
    return _power(p, a, out)


def _slope(p: Tensor, w: Tensor, kind: str, a: float) -> Tensor:
    """:math:`f'(p)`, in place of ``p`` as :func:`_kernel` left it, given :math:`w = f(p)`."""
    if kind == "exp":
        saturated = torch.threshold_(p.neg_(), -_largest_exponent(p.dtype), math.inf)
        return saturated.neg_().exp_()
    return p.reciprocal_() if kind == "log" else torch.div(w, p, out=p).mul_(-a / 2)


def _largest_exponent(dtype: torch.dtype) -> float:
    return math.log(torch.finfo(dtype).max) / 2


def _power(p: Tensor, a: float, out: Tensor) -> Tensor:
    r""":math:`p^{-a/2}`; the general power costs several times a root."""
    if a == 1:
        return torch.rsqrt(p, out=out)
    if a == 2:
        return torch.reciprocal(p, out=out)
    if a == 3:
        return torch.rsqrt(p, out=out).pow_(3)
    return torch.pow(p, -a / 2, out=out)


@pair_sum.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, offset: Tensor, kind: str, parameter: float) -> Tensor:
    return v.new_empty(q.shape[0], q.shape[1], v.shape[2])


@pair_sum_backward.register_fake
def _(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, offset: Tensor, kind: str, parameter: float
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx, inputs, output) -> None:
    *tensors, ctx.kind, ctx.parameter = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx, g: Tensor) -> tuple[Tensor | None, ...]:
    # a graph of the backward pass itself is only made for second derivatives
    gradients = _traceable_backward if torch.is_grad_enabled() else pair_sum_backward
    q, k, v, offset = ctx.saved_tensors
    return (*gradients(g.contiguous(), q, k, v, offset, ctx.kind, ctx.parameter), None, None, None)


def _traceable_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, offset: Tensor, kind: str, parameter: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What :func:`pair_sum_backward` gives, in operations that can be differentiated; holds all pairs."""
    w, slope = _all_pairs(q, k, v.dtype, offset, kind, parameter)
    pairs = (g @ v.mT) * slope
    dq, dk = pairs @ k.to(v.dtype), pairs.mT @ q.to(v.dtype)
    return dq.to(q.dtype), dk.to(k.dtype), w.mT @ g


def whole_pair_sum(q: Tensor, k: Tensor, v: Tensor, offset: Tensor, kind: str, parameter: float) -> Tensor:
    """What :func:`pair_sum` gives, in operations of PyTorch alone, for files that run without this library; holds all
    pairs."""
    return _all_pairs(q, k, v.dtype, offset, kind, parameter)[0] @ v


def _all_pairs(q: Tensor, k: Tensor, dtype: torch.dtype, offset: Tensor, kind: str, a: float) -> tuple[Tensor, Tensor]:
    """:math:`f` and :math:`f'` of all products, (B, N, M)."""
    p = q @ k.mT
    if kind == "exp":
        cap = _largest_exponent(dtype)
        w = p.clamp(max=cap).exp()
        return w, w.masked_fill(p >= cap, 0.0)
    void = p <= nearest(dtype, a)
    p = p.masked_fill(void, 1.0)
    w = p.log() + offset if kind == "log" else p.pow(-a / 2)
    slope = 1 / p if kind == "log" else -a / 2 * w / p
    return w.masked_fill(void, 0.0).to(dtype), slope.masked_fill(void, 0.0).to(dtype)


pair_sum.register_autograd(_backward, setup_context=_keep)


@register_flop_formula(torch.ops.evolvent.pair_sum)
def _forward_flops(q: torch.Size, k: torch.Size, v: torch.Size, *_, **__) -> int:
    """Two for each multiply-add: the products, and the weighted sums."""
    return 2 * q[0] * q[1] * k[1] * (q[2] + v[2])


@register_flop_formula(torch.ops.evolvent.pair_sum_backward)
def _backward_flops(g: torch.Size, q: torch.Size, k: torch.Size, v: torch.Size, *_, **__) -> int:
    """The products again, and two gradients on either side of the kernel."""
    return 2 * q[0] * q[1] * k[1] * (3 * q[2] + 2 * v[2])
