"""The derivatives of a function that are asked for by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent.equations.algebra import Index
from evolvent.equations.derivatives import mixed_jet
from evolvent.equations.laplacian import Laplacian, laplacian
from evolvent.equations.terms import Derivatives, coordinates_in

_FEW = 7  # coordinates whose Laplacian is computed term by term, in one pass with all other derivatives
_MOST = 1000  # derivatives
_AT_ONCE = 2**17  # points times coordinates whose gradients go through a network together, unless they are recorded
_WHOLE = {"gradient": 1, "laplacian": 2}  # what stands for derivatives of that order in all coordinates of space


def derivatives_at(
    f: Callable[[Tensor], Tensor],
    points: Tensor,
    names: Sequence[str],
    coordinates: Sequence[str],
    space: Sequence[str],
) -> Derivatives:
    """u and derivatives of it, in one pass; a Laplacian in many dimensions takes one of its own.

    A gradient alone is computed in reverse mode, and then u must have one component.

    Args:
        f: a network or another function of points.
        points: (N, coordinates).
        names: of derivatives, such as ``("t", "xx", "gradient", "laplacian")``; ``"function"``, u itself, is there
            always.
        coordinates: names of the columns of points.
        space: those of them that are in space.
    """
    whole = [name for name in names if name in _WHOLE]
    if whole == ["gradient"] and set(names) <= {"gradient", "function"} and len(space) > 1:
        return _backward_gradient(f, points, coordinates, space)
    forward = None
    if "laplacian" in whole and len(space) > _FEW:
        forward, whole = _laplacian_in_parts(f, points, coordinates, space), []
    terms = [name * _WHOLE[kind] for kind in whole for name in space]
    single = list(dict.fromkeys([name for name in names if name not in (*_WHOLE, "function")] + terms))
    if forward is not None and not single:
        return Derivatives(forward.value, {}, {}, _columns(points, coordinates), forward.gradient, forward.laplacian, f)
    u = _single(f, points, single, coordinates)
    gradient, total = (None, None) if forward is None else (forward.gradient, forward.laplacian)
    if "gradient" in whole:
        gradient = torch.cat([u.of(name, 1) for name in space], dim=1)
    if "laplacian" in whole:
        total = torch.stack([u.of(name, 2) for name in space]).sum(0)
    return Derivatives(u.value, u.along, u.mixed, u.points, gradient, total, f)


def _columns(points: Tensor, coordinates: Sequence[str]) -> dict[str, Tensor]:
    return dict(zip(coordinates, points.split(1, dim=1), strict=True))


def _backward_gradient(
    f: Callable[[Tensor], Tensor], points: Tensor, coordinates: Sequence[str], space: Sequence[str]
) -> Derivatives:
    """By reverse mode, which is faster where first derivatives of one number are all that is asked for."""
    recorded = torch.is_grad_enabled()
    with torch.enable_grad():
        x = points.detach().requires_grad_()
        u = f(x)
        if u.requires_grad:
            (gradient,) = torch.autograd.grad(u.sum(), x, create_graph=recorded, allow_unused=True)
        else:
            gradient = None
    gradient = torch.zeros_like(points) if gradient is None else gradient
    columns = [i for i, name in enumerate(coordinates) if name in space]
    at = _columns(points, coordinates)
    return Derivatives(u if recorded else u.detach(), {}, {}, at, gradient[:, columns], function=f)


def _laplacian_in_parts(
    f: Callable[[Tensor], Tensor], points: Tensor, coordinates: Sequence[str], space: Sequence[str]
) -> Laplacian:
    """Few points at a time in very many dimensions, where each layer has a whole gradient for each of its numbers."""
    rows = len(points) if torch.is_grad_enabled() else max(1, _AT_ONCE // len(space))
    parts = [_forward_laplacian(f, part, coordinates, space) for part in points.split(max(1, rows))]
    return parts[0] if len(parts) == 1 else Laplacian(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _forward_laplacian(
    f: Callable[[Tensor], Tensor], points: Tensor, coordinates: Sequence[str], space: Sequence[str]
) -> Laplacian:
    """With the gradient in space, (N, d)."""
    columns = _columns(points, coordinates)

    def in_space(x: Tensor) -> Tensor:
        if len(space) == len(coordinates):
            return f(x)
        moved = {name: x[:, i : i + 1] for i, name in enumerate(space)}
        return f(torch.cat([moved.get(name, columns[name]) for name in coordinates], dim=1))

    found = laplacian(in_space, torch.cat([columns[name] for name in space], dim=1))
    return found._replace(gradient=found.gradient[:, 0])


def _single(
    f: Callable[[Tensor], Tensor], points: Tensor, names: Sequence[str], coordinates: Sequence[str]
) -> Derivatives:
    asked = {_index(name, coordinates): name for name in names}
    if len(asked) > _MOST:
        raise ConfigError(
            f"{len(asked):,} derivatives in {len(coordinates)} coordinates are too many, as a dense matrix of second "
            "derivatives would be. Use u.laplacian and u.gradient, or the deep BSDE method (task bsde)."
        )
    axes = [i for i in range(len(coordinates)) if any(index[i] for index in asked)]
    at = _columns(points, coordinates)
    if not axes:
        return Derivatives(f(points), {}, points=at)
    directions = list(torch.eye(len(coordinates), dtype=points.dtype, device=points.device)[axes])
    found = mixed_jet(f, points, directions, [tuple(index[i] for i in axes) for index in asked])
    along: dict[str, list[Tensor]] = {}
    for k, i in enumerate(axes):
        orders = [index[k] for index in found if sum(index) == index[k]]
        rows = [found[tuple(n if j == k else 0 for j in range(len(axes)))] for n in range(1, max(orders) + 1)]
        along[coordinates[i]] = rows
    mixed = {name: found[tuple(index[i] for i in axes)] for index, name in asked.items()}
    return Derivatives(found[(0,) * len(axes)], along, mixed, at)


def _index(name: str, coordinates: Sequence[str]) -> Index:
    taken = coordinates_in(name)
    for one in taken:
        if one not in coordinates:
            raise UnknownNameError("coordinate", one, coordinates, f"There are {', '.join(coordinates)}.")
    return tuple(taken.count(coordinate) for coordinate in coordinates)
