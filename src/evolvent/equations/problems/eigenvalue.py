"""The smallest eigenvalue of the Laplacian: the deepest tone of a box."""

from __future__ import annotations

import math

from evolvent.equations.problems.poisson import coordinate_names, product_of_sines
from evolvent.equations.problems.problem import Problem
from evolvent.equations.problems.registry import register_problem


@register_problem("eigenvalue")
def eigenvalue(dimension: int = 2) -> Problem:
    r"""Smallest eigenvalue of :math:`-\Delta u = \lambda u` on :math:`[0, 1]^d` with u = 0 on the boundary.

    It is :math:`d \pi^2`, the least value of :math:`\int |\nabla u|^2 / \int u^2`, attained by
    :math:`\prod_i \sin \pi x_i`.
    """
    least = dimension * math.pi**2
    return Problem(
        name="eigenvalue",
        title=f"Smallest eigenvalue of the Laplacian, d = {dimension}",
        domain=dict.fromkeys(coordinate_names(dimension), (0.0, 1.0)),
        equation=lambda u, eigenvalue: -u.laplacian - eigenvalue * u.value,
        coefficients={"eigenvalue": least},
        boundary=lambda *columns: 0 * columns[0],
        energy=lambda u, eigenvalue: u.gradient.square().sum(1, keepdim=True),
        eigenvalue=least,
        reference=lambda: lambda points: product_of_sines(*points.double().split(1, dim=1)),
    )
