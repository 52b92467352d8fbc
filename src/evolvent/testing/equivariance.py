"""Whether a layer commutes with a group."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from evolvent.groups import Field
from evolvent.testing._claims import claim, norm

_TOLERANCES: Mapping[torch.dtype, float] = {torch.float32: 1e-6, torch.float64: 1e-12}


@torch.no_grad()
def check_equivariance(
    module: nn.Module,
    in_field: Field,
    out_field: Field | None,
    size: int = 8,
    tolerances: Mapping[torch.dtype, float] = _TOLERANCES,
    *,
    pointwise: bool = False,
) -> None:
    r"""Measure :math:`|L(g u) - g L(u)| / |L(u)|` for every element :math:`g` that moves pixels onto pixels.

    Modules are taken in the mode, training or evaluation, in which they are. Random layers draw the same numbers each
    time.

    Args:
        module: a map :math:`L` of features; copies are used.
        in_field: how its argument transforms.
        out_field: how its result does, by the same group or by one that it contains; None for answers that the group
            must not change, such as classes.
        size: pixels along a side of the square maps that it is tried on.
        tolerances: the largest error for each precision that is tried.
        pointwise: try every other element of the group as well, with pixels where they are. Layers that do the same at
            each point commute with all of them, such as a rotation by 45 degrees, exactly.

    >>> from evolvent.groups import cyclic, regular_fields, scalars
    >>> from evolvent.operators.differential import SteerablePDO
    >>> before, after = scalars(cyclic(8)), regular_fields(cyclic(8), 2)
    >>> check_equivariance(SteerablePDO(before, after), before, after)
    """
    draw = torch.Generator().manual_seed(0)
    u = torch.randn(2, in_field.channels, size, size, generator=draw, dtype=torch.float64)
    for dtype, allowed in tolerances.items():
        twin, x = copy.deepcopy(module).to(dtype), u.to(dtype)
        y = _answer(twin, x)
        _check_result(y, out_field)
        for name, gx, gy in _moved(x, y, in_field, out_field, pointwise):
            found = _answer(twin, gx)
            claim(found.shape == gy.shape, f"{name}: L(g u) has shape {tuple(found.shape)}, g L(u) {tuple(gy.shape)}.")
            off = norm(found.double() - gy.double()) / max(norm(y), 1e-300)
            claim(
                off <= allowed,
                f"{name}: |L(g u) - g L(u)| / |L(u)| is {off:.1e} in {str(dtype).removeprefix('torch.')}, claimed at "
                f"most {allowed:.0e}.",
            )


def _moved(
    x: Tensor, y: Tensor, in_field: Field, out_field: Field | None, pointwise: bool
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """For each element that is tried, its name, and what it makes of argument and result."""
    group = in_field.group if out_field is None else out_field.group
    elements = in_field.group.embedding(group)  # of the argument's group, which may be larger
    for g in range(group.order):
        name, on_grid = f"element {g} of {group} ({group.element_name(g)})", g in group.grid_symmetries
        if on_grid or pointwise:
            act = Field.transform if on_grid else Field.act
            gy = y if out_field is None else act(out_field, y, g)
            yield name if on_grid else f"{name}, on channels alone", act(in_field, x, int(elements[g])), gy


def _answer(module: nn.Module, u: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return module(u)


def _check_result(y: Tensor, out_field: Field | None) -> None:
    claim(bool(y.isfinite().all()), "L(u) is not finite.")
    claim(
        out_field is None or (y.ndim == 4 and y.shape[1] == out_field.channels),
        f"L(u) has shape {tuple(y.shape)}, claimed are maps of {out_field}.",
    )
