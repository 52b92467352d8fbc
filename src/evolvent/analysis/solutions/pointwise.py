"""Equations linearised at points: how the residual changes with u, its derivatives and the coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from evolvent.equations import Derivatives

Slopes = dict[str, Tensor]  # name of a derivative or coefficient -> (N, equations, unknowns or 1)


def slopes(
    residual: Callable[..., Tensor],
    u: Derivatives,
    names: Sequence[str],
    coefficients: Mapping[str, float] | None = None,
) -> tuple[Tensor, Slopes, Slopes]:
    r"""The residual and its partial derivatives in each argument, :math:`\partial R / \partial u_{xx}` and so on.

    Args:
        residual: of derivatives and the coefficients by name, (N, equations).
        u: where.
        names: of the derivatives that it uses; u itself is always among them, as the empty name.
        coefficients: by name, if the residual takes any.

    Returns:
        The residual (N, equations), and its slopes in the derivatives, (N, equations, unknowns), and in the
        coefficients, (N, equations, 1).
    """
    leaves = {name: u[name].detach().requires_grad_() for name in ("", *names)}
    given = {
        name: torch.full_like(u.value[:, :1], float(value)).requires_grad_()
        for name, value in (coefficients or {}).items()
    }
    with torch.enable_grad():
        found = residual(_with(u, leaves), **given)
        columns = [_gradients(column, [*leaves.values(), *given.values()]) for column in found.unbind(1)]
    stacked = [torch.stack(parts, dim=1) for parts in zip(*columns, strict=True)]
    all_slopes = dict(zip([*leaves, *(f"of {name}" for name in given)], stacked, strict=True))
    by_coefficient = {name: all_slopes.pop(f"of {name}") for name in given}
    return found.detach(), all_slopes, by_coefficient


def shifted(u: Derivatives, by: Mapping[str, Tensor]) -> Derivatives:
    """The same u with something added to it and to its derivatives, by name."""
    return _with(u, {name: u[name] + part for name, part in by.items()})


def _with(u: Derivatives, leaves: Mapping[str, Tensor]) -> Derivatives:
    """The same u with other tensors in the place of its derivatives."""
    along = {
        name: [leaves.get(name * (k + 1), row.detach()) for k, row in enumerate(rows)] for name, rows in u.along.items()
    }
    return Derivatives(leaves[""], along, {name: leaves.get(name, v.detach()) for name, v in u.mixed.items()}, u.points)


def _gradients(column: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Of the sum over points, which keeps them apart; zero where the residual does not depend on a leaf."""
    if not column.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(column.sum(), leaves, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True)]
