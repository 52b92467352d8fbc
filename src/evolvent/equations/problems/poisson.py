"""Poisson's equation: on a box of any dimension, on a disc, and around a corner that points inwards."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from evolvent._core.checks import check_choice, check_whole
from evolvent._core.errors import ConfigError
from evolvent.equations.problems.problem import Problem
from evolvent.equations.problems.region import disc, l_shape
from evolvent.equations.problems.registry import register_problem
from evolvent.equations.terms import Derivatives


def coordinate_names(dimension: int) -> list[str]:
    """x, y, z, or x1, x2, ... if there are more."""
    check_whole(1, dimension=dimension)
    return list("xyz"[:dimension]) if dimension <= 3 else [f"x{i + 1}" for i in range(dimension)]


def product_of_sines(*columns: Tensor) -> Tensor:
    r""":math:`\prod_i \sin \pi x_i`."""
    return torch.sin(math.pi * torch.cat(columns, dim=1)).prod(1, keepdim=True)


def _pairs(*columns: Tensor) -> Tensor:
    return torch.stack([a * b for a, b in zip(columns[::2], columns[1::2], strict=True)]).sum(0)


def dirichlet_energy(u: Derivatives, force: Tensor | float) -> Tensor:
    r""":math:`\tfrac 12 |\nabla u|^2 - f u`, whose integral solutions of :math:`-\Delta u = f` minimise."""
    return 0.5 * u.gradient.square().sum(1, keepdim=True) - force * u.value


@register_problem("poisson")
def poisson(dimension: int = 2, solution: Literal["sines", "pairs"] = "sines") -> Problem:
    r"""Poisson's equation :math:`-\Delta u = f` on :math:`[0, 1]^d`, with values on the boundary.

    The solution is :math:`\prod_i \sin \pi x_i`, which is 0 on the boundary, or, ``pairs``, the harmonic
    :math:`x_1 x_2 + x_3 x_4 + \dots` of E and Yu 2018, whose values on the boundary are asked for.
    """
    check_choice("solution", solution, ("sines", "pairs"))
    names = coordinate_names(dimension)
    if solution == "pairs" and dimension % 2:
        raise ConfigError(f"the solution pairs needs an even dimension, got {dimension}.")
    exact = product_of_sines if solution == "sines" else _pairs
    stiffness = dimension * math.pi**2 if solution == "sines" else 0.0

    def force(u: Derivatives) -> Tensor:
        return stiffness * product_of_sines(*u.points.values())

    return Problem(
        name="poisson",
        title=f"Poisson's equation, d = {dimension}",
        domain=dict.fromkeys(names, (0.0, 1.0)),
        equation=lambda u: -u.laplacian - force(u),
        boundary=(lambda *columns: 0 * columns[0]) if solution == "sines" else _pairs,
        energy=lambda u: dirichlet_energy(u, force(u)),
        reference=lambda: lambda points: exact(*points.double().split(1, dim=1)),
        size=1.0 if solution == "sines" else dimension / 8,
    )


@register_problem("poisson-disc")
def poisson_disc() -> Problem:
    r"""Poisson's equation on the unit disc, with the solution :math:`(1 - x^2 - y^2)\, e^{x + y}`."""

    def solution(points: Tensor) -> Tensor:
        x, y = points.double().split(1, dim=1)
        return (1 - x * x - y * y) * torch.exp(x + y)

    def force(u: Derivatives) -> Tensor:
        x, y = u.points["x"], u.points["y"]
        return torch.exp(x + y) * (4 + 4 * (x + y) - 2 * (1 - x * x - y * y))

    return Problem(
        name="poisson-disc",
        title="Poisson's equation on a disc",
        domain={"x": (-1.0, 1.0), "y": (-1.0, 1.0)},
        region=disc(),
        equation=lambda u: -u.laplacian - force(u),
        boundary=lambda x, y: 0 * x,
        energy=lambda u: dirichlet_energy(u, force(u)),
        reference=lambda: solution,
    )


@register_problem("poisson-l-shape")
def poisson_l_shape() -> Problem:
    r"""Laplace's equation on an L-shape, with the solution :math:`r^{2/3} \sin \tfrac 23 \varphi`.

    Its gradient is not bounded at the corner that points inwards. Values on the boundary are those of the solution.
    """

    def solution(x: Tensor, y: Tensor) -> Tensor:
        angle = torch.atan2(y, x) % (2 * math.pi)
        return (x * x + y * y) ** (1 / 3) * torch.sin(angle * (2 / 3))

    return Problem(
        name="poisson-l-shape",
        title="Laplace's equation on an L-shape",
        domain={"x": (-1.0, 1.0), "y": (-1.0, 1.0)},
        region=l_shape(),
        equation=lambda u: -u.laplacian,
        boundary=solution,
        energy=lambda u: dirichlet_energy(u, 0.0),
        reference=lambda: lambda points: solution(*points.double().split(1, dim=1)),
    )
