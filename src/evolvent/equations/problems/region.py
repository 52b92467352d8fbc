"""Regions of space: what lies inside, points of the boundary, and a function that vanishes there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MANY = 50
"""Coordinates from which a product of one factor for each is too small and too slow to be of use."""


@dataclass(frozen=True)
class Region:
    """A part of space inside of a box.

    Args:
        name: in print.
        contains: of points (N, d), whether they lie inside, bool (N,).
        boundary: of numbers of the unit cube (N, d), points of the boundary (N, d), evenly spread if the numbers are.
        inside: of points (N, d), (N, 1): 0 on the boundary, positive and of order one inside, as smooth as the solution
            should be. It is a factor of solutions whose boundary values are built in.

    >>> import torch
    >>> region = disc()
    >>> region.contains(torch.tensor([[0.5, 0.5], [0.9, 0.9]])).tolist()
    [True, False]
    """

    name: str
    contains: Callable[[Tensor], Tensor]
    boundary: Callable[[Tensor], Tensor]
    inside: Callable[[Tensor], Tensor]


def box(ends: Sequence[tuple[float, float]]) -> Region:
    r"""A box, with :math:`\prod_i 4 s_i (1 - s_i)` of coordinates scaled to [0, 1] as the function that vanishes."""
    low, high = torch.tensor(ends, dtype=torch.float64).T
    sizes = high - low

    def boundary(numbers: Tensor) -> Tensor:
        length, rows = sizes.to(numbers), torch.arange(len(numbers), device=numbers.device)
        areas = (length.prod() / length).repeat_interleave(2)  # of the faces: lower and upper of each axis
        face = torch.searchsorted((areas / areas.sum()).cumsum(0), numbers[:, 0].contiguous())
        axis, upper = (face // 2).clamp_max(len(length) - 1), (face % 2).to(numbers)
        shares = numbers.roll(-1, dims=1)
        shares[rows, -1] = shares[rows, axis]  # whose own number has chosen the face
        shares[rows, axis] = upper
        return low.to(numbers) + shares * length

    def inside(points: Tensor) -> Tensor:
        product = None
        for i, (start, end) in enumerate(ends):
            x = points[:, i : i + 1]
            bump = (x - start) * (end - x) * (4 / (end - start) ** 2)
            product = bump if product is None else product * bump
        assert product is not None
        return product

    def contains(points: Tensor) -> Tensor:
        return ((points >= low.to(points)) & (points <= high.to(points))).all(1)

    return Region("box", contains, boundary, inside)


def disc(radius: float = 1.0) -> Region:
    r"""A disc about the origin; the function that vanishes is :math:`1 - |x|^2 / r^2`."""

    def boundary(numbers: Tensor) -> Tensor:
        angle = 2 * math.pi * numbers[:, :1]
        return radius * torch.cat([angle.cos(), angle.sin()], dim=1)

    def squares(points: Tensor) -> Tensor:
        x, y = points[:, :1], points[:, 1:2]
        return (x * x + y * y) * (1 / radius**2)

    return Region("disc", lambda points: squares(points)[:, 0] <= 1, boundary, lambda points: 1 - squares(points))


def l_shape() -> Region:
    r"""The square :math:`[-1, 1]^2` without its quadrant :math:`x > 0, y < 0`, whose corner points inwards.

    The function that vanishes is :math:`(1 - x^2)(1 - y^2)\,(\sqrt{x^2 + y^2} + y - x)`; the last factor is zero on
    both edges of the missing quadrant and, like the solution, not smooth at the corner.
    """
    corners = torch.tensor([[0, 0], [0, -1], [-1, -1], [-1, 1], [1, 1], [1, 0], [0, 0]], dtype=torch.float64)

    def boundary(numbers: Tensor) -> Tensor:
        places = corners.to(numbers)
        edges = places.diff(dim=0)
        ends = edges.norm(dim=1).cumsum(0)
        along = numbers[:, :1] * ends[-1]
        edge = torch.searchsorted(ends, along[:, 0].contiguous()).clamp_max(len(edges) - 1)
        length = edges[edge].norm(dim=1, keepdim=True)
        return places[edge] + (along - ends[edge, None] + length) / length * edges[edge]

    def contains(points: Tensor) -> Tensor:
        x, y = points[:, 0], points[:, 1]
        return (x.abs() <= 1) & (y.abs() <= 1) & ~((x > 0) & (y < 0))

    def inside(points: Tensor) -> Tensor:
        x, y = points[:, :1], points[:, 1:2]
        return (1 - x * x) * (1 - y * y) * ((x * x + y * y + 1e-12).sqrt() + y - x)

    return Region("L-shape", contains, boundary, inside)
