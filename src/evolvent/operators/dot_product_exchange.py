"""Exchange between pixel strips by their dot products, with little memory of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evolvent.operators.strips import centre


class DotProductExchange(torch.autograd.Function):
    r"""What every strip takes from all others, in an order that is exact and linear in their number.

    .. math:: \sum_j (x_i^\top y_j)(v_j - v_i) = F x_i - r_i v_i, \qquad
              F = \sum_j v_j y_j^\top, \qquad r_i = \sum_j x_i^\top y_j

    Fresh memory costs more than arithmetic here, so the result is made in one tensor, the gradient of :math:`v` in
    another, and nothing of their size is kept beside :math:`v` and :math:`x`.

    Args (of ``apply``):
        v: (B, N, C).
        x, y: (B, N, D) and (B, M, D).
        row: :math:`r`, (B, N, 1).
        where: pixels of the strips :math:`v_j`, (B, M, C); None for all.

    Shape: (B, N, C), in the order in memory of ``v``.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(v: Tensor, x: Tensor, y: Tensor, row: Tensor, where: Tensor | None) -> Tensor:
        mine, others = centre(v, where)
        flow = others.mT @ y
        return add_product(mine.mul_(-row), x, flow.mT)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        v, x, y, row, where = ctx.saved_tensors
        mine, others = centre(v, where)
        by_flow = g.mT @ x
        by_x, by_y = product(g, others.mT @ y, like=x), others @ by_flow
        scratch = None if torch.is_grad_enabled() else mine  # nothing is overwritten that second derivatives need
        by_row = -torch.mul(mine, g, out=scratch).sum(-1, keepdim=True)
        by_v = torch.mul(g, -row, out=scratch)
        return _give_back(by_v, y @ by_flow.mT, where), by_x, by_y, by_row, None


def product(a: Tensor, b: Tensor, like: Tensor) -> Tensor:
    """The matrix product, in the order in memory of ``like``."""
    return a @ b if like.is_contiguous() else (b.mT @ a.mT).mT


def add_product(target: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The matrix product added to ``target``, in its place."""
    if target.is_contiguous():
        return target.baddbmm_(a, b)
    return target.mT.baddbmm_(b.mT, a.mT).mT


def _give_back(by_v: Tensor, by_others: Tensor, where: Tensor | None) -> Tensor:
    """The gradient of all strips, from that of those at ``where`` and, to be overwritten, that of the others' sums."""
    if where is None:
        return by_v.add_(by_others)
    if by_v.is_contiguous():
        return by_v.scatter_add_(1, where, by_others)
    by_v.mT.scatter_add_(2, where.mT, by_others.mT)
    return by_v
