"""The fractional Poisson equation on an interval: an equation that is not local."""

from __future__ import annotations

import math

from torch import Tensor

from evolvent.equations.fractional import fractional_laplacian
from evolvent.equations.problems.problem import Problem
from evolvent.equations.problems.registry import register_problem
from evolvent.equations.terms import Derivatives


@register_problem("fractional-poisson")
def fractional_poisson(order: float = 1.5, nodes: int = 32) -> Problem:
    r"""Fractional Poisson equation on (-1, 1), with u = 0 outside (Dyda 2012; Pang, Lu and Karniadakis 2019).

    .. math:: (-\Delta)^{\alpha/2} u = \frac{2^\alpha}{\sqrt\pi} \Gamma(\tfrac \alpha 2 + 2)\,
       \Gamma(\tfrac{\alpha + 1}2)\,(1 - (1 + \alpha) x^2), \qquad u = (1 - x^2)_+^{1 + \alpha/2}
    """
    factor = 2**order * math.gamma(order / 2 + 2) * math.gamma((order + 1) / 2) / math.sqrt(math.pi)

    def equation(u: Derivatives) -> Tensor:
        x = u.points["x"]
        return fractional_laplacian(u.function, x, order, nodes) - factor * (1 - (1 + order) * x * x)

    return Problem(
        name="fractional-poisson",
        title="Fractional Poisson equation",
        domain={"x": (-1.0, 1.0)},
        equation=equation,
        boundary=lambda x: 0 * x,
        reference=lambda: lambda points: (1 - points.double() ** 2).clamp_min(0) ** (1 + order / 2),
    )
