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

from evolvent.operators.fractional_constants import EULER_GAMMA

_BLOCK = 1 << 19  # pairs at a time: large enough for matrix products, small enough for the cache

Window = tuple[slice, slice]


@torch.library.custom_op("evolvent::pair_sum", mutates_args=())
def pair_sum(q: Tensor, k: Tensor, v: Tensor, floor: Tensor, kind: str, parameter: float) -> Tensor:
    r""":math:`\sum_j f(q_i \cdot k_j)\, v_j` for all :math:`i`, with gradients for ``q``, ``k`` and ``v``.

    Args:
        q, k: (B, N, D) and (B, M, D), in the precision that products are made in.
        v: (B, M, C), in the precision of the result.
        floor: (B, 1, 1); products up to it count as distance zero, where :math:`f` is 0. Not used by the exponential.
        kind: ``"power"`` is :math:`f(p) = p^{-a/2}`, ``"log"`` is :math:`-a \log p - \gamma`, ``"exp"`` is
            :math:`e^p`, saturated where its square would overflow.
        parameter: :math:`a`.

    Shape: (B, N, C).
    """
    with torch.autocast(v.device.type, enabled=False):
        sums = v.new_empty(q.shape[0], q.shape[1], v.shape[2])
        for samples, rows in _windows(q, k):
            w, _ = _kernel(torch.bmm(q[samples, rows], k[samples].mT), floor[samples], kind, parameter, v.dtype, False)
            sums[samples, rows] = torch.bmm(w, v[samples])
        return sums


@torch.library.custom_op("evolvent::pair_sum_backward", mutates_args=())
def pair_sum_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, floor: Tensor, kind: str, parameter: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of :func:`pair_sum` for ``q``, ``k`` and ``v``, given that of the sums."""
    with torch.autocast(v.device.type, enabled=False):
        q_low, k_low = q.to(v.dtype), k.to(v.dtype)
        dq, dk, dv = torch.empty_like(q_low), torch.zeros_like(k_low), torch.zeros_like(v)
        for samples, rows in _windows(q, k):
            product = torch.bmm(q[samples, rows], k[samples].mT)
            w, slope = _kernel(product, floor[samples], kind, parameter, v.dtype, True)
            dv[samples].baddbmm_(w.mT, g[samples, rows])
            pairs = torch.bmm(g[samples, rows], v[samples].mT).mul_(slope)
            dq[samples, rows] = torch.bmm(pairs, k_low[samples])
            dk[samples].baddbmm_(pairs.mT, q_low[samples, rows])
        return dq.to(q.dtype, copy=True), dk.to(k.dtype, copy=True), dv


def _windows(q: Tensor, k: Tensor) -> Iterator[Window]:
    """Samples and rows to treat at a time: several small maps, or some rows of a large one."""
    batch, rows, columns = q.shape[0], q.shape[1], k.shape[1]
    samples = max(1, _BLOCK // (rows * columns))
    height = max(1, min(rows, _BLOCK // columns))
    for b in range(0, batch, samples):
        for r in range(0, rows, height):
            yield slice(b, b + samples), slice(r, r + height)


def _kernel(
    product: Tensor, floor: Tensor, kind: str, a: float, dtype: torch.dtype, with_slope: bool
) -> tuple[Tensor, Tensor]:
    """:math:`f(p)` and, if asked for, :math:`f'(p)`, in ``dtype``."""
    if kind == "exp":
        cap = math.log(torch.finfo(dtype).max) / 2
        w = product.clamp(max=cap).exp_()
        return w, w.masked_fill(product > cap, 0.0) if with_slope else w
    void = product <= floor
    p = product.to(dtype).clamp_(max=torch.finfo(dtype).max).masked_fill_(void, math.inf)
    if kind == "log":
        w = p.log().mul_(-a).sub_(EULER_GAMMA).masked_fill_(void, 0.0)
        return w, p.reciprocal_().mul_(-a) if with_slope else w
    w = _power(p, a)
    return w, torch.div(w, p, out=p).mul_(-a / 2) if with_slope else w


def _power(p: Tensor, a: float) -> Tensor:
    r""":math:`p^{-a/2}`; the general power costs several times a root."""
    if a == 1:
        return p.rsqrt()
    if a == 2:
        return p.reciprocal()
    if a == 3:
        root = p.rsqrt()
        return root.mul(root).mul_(root)
    return p.pow(-a / 2)


@pair_sum.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, floor: Tensor, kind: str, parameter: float) -> Tensor:
    return v.new_empty(q.shape[0], q.shape[1], v.shape[2])


@pair_sum_backward.register_fake
def _(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, floor: Tensor, kind: str, parameter: float
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx, inputs, output) -> None:
    *tensors, ctx.kind, ctx.parameter = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx, g: Tensor) -> tuple[Tensor | None, ...]:
    # a graph of the backward pass itself is only made for second derivatives
    gradients = _traceable_backward if torch.is_grad_enabled() else pair_sum_backward
    q, k, v, floor = ctx.saved_tensors
    return (*gradients(g.contiguous(), q, k, v, floor, ctx.kind, ctx.parameter), None, None, None)


def _traceable_backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, floor: Tensor, kind: str, parameter: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What :func:`pair_sum_backward` gives, in operations that can be differentiated; holds all pairs."""
    product = q @ k.mT
    if kind == "exp":
        cap = math.log(torch.finfo(v.dtype).max) / 2
        w = product.clamp(max=cap).exp()
        slope = w.masked_fill(product > cap, 0.0)
    else:
        void = product <= floor
        p = product.masked_fill(void, 1.0)
        w, slope = _logarithm_pair(p, parameter) if kind == "log" else _power_pair(p, parameter)
        w, slope = w.masked_fill(void, 0.0).to(v.dtype), slope.masked_fill(void, 0.0).to(v.dtype)
    pairs = (g @ v.mT) * slope
    dq, dk = pairs @ k.to(v.dtype), pairs.mT @ q.to(v.dtype)
    return dq.to(q.dtype), dk.to(k.dtype), w.mT @ g


def _logarithm_pair(p: Tensor, a: float) -> tuple[Tensor, Tensor]:
    return -a * p.log() - EULER_GAMMA, -a / p


def _power_pair(p: Tensor, a: float) -> tuple[Tensor, Tensor]:
    w = p.pow(-a / 2)
    return w, -a / 2 * w / p


pair_sum.register_autograd(_backward, setup_context=_keep)


@register_flop_formula(torch.ops.evolvent.pair_sum)
def _forward_flops(q: torch.Size, k: torch.Size, v: torch.Size, *_, **__) -> int:
    """Two for each multiply-add: the products, and the weighted sums."""
    return 2 * q[0] * q[1] * k[1] * (q[2] + v[2])


@register_flop_formula(torch.ops.evolvent.pair_sum_backward)
def _backward_flops(g: torch.Size, q: torch.Size, k: torch.Size, v: torch.Size, *_, **__) -> int:
    """The products again, and two gradients on either side of the kernel."""
    return 2 * q[0] * q[1] * k[1] * (3 * q[2] + 2 * v[2])
