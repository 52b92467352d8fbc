"""Helmholtz' equation: a standing wave that is short in one direction."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evolvent.equations.problems.problem import Problem
from evolvent.equations.problems.registry import register_problem


@register_problem("helmholtz")
def helmholtz(wave_number: float = 1.0, x_waves: int = 1, y_waves: int = 4) -> Problem:
    r"""Helmholtz' equation on :math:`[-1, 1]^2`, 0 on the boundary (Wang, Teng and Perdikaris 2021).

    .. math:: u_{xx} + u_{yy} + k^2 u = f, \qquad u = \sin(a \pi x) \sin(b \pi y)
    """

    def wave(x: Tensor, y: Tensor) -> Tensor:
        return torch.sin(x_waves * math.pi * x) * torch.sin(y_waves * math.pi * y)

    stiffness = (x_waves**2 + y_waves**2) * math.pi**2
    return Problem(
        name="helmholtz",
        title="Helmholtz' equation",
        domain={"x": (-1.0, 1.0), "y": (-1.0, 1.0)},
        equation=lambda u, wave_number: (
            u.laplacian + wave_number**2 * u.value - (wave_number**2 - stiffness) * wave(u.points["x"], u.points["y"])
        ),
        coefficients={"wave_number": wave_number},
        boundary=lambda x, y: 0 * x,
        reference=lambda: lambda points: wave(*points.double().split(1, dim=1)),
    )
