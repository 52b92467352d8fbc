"""The heat equation: waves that fade, the faster the shorter they are."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.problem import Problem
from evolvent.equations.problems.registry import register_problem

_WAVES = ((1, 1.0), (4, 0.5))  # wave number and amplitude


@register_problem("heat")
def heat(diffusion: float = 0.05, until: float = 1.0) -> Problem:
    r"""Heat equation with period 2, odd; its solution is known in closed form.

    .. math:: u_t = D u_{xx}, \qquad u(x, 0) = \sin \pi x + \tfrac 12 \sin 4 \pi x
    """

    def solution(points: Tensor) -> Tensor:
        x, t = points.double().split(1, dim=1)
        waves = [a * torch.exp(-diffusion * (k * math.pi) ** 2 * t) * torch.sin(k * math.pi * x) for k, a in _WAVES]
        return torch.stack(waves).sum(0)

    return Problem(
        name="heat",
        title="Heat equation",
        domain={"x": (-1.0, 1.0), "t": (0.0, until)},
        equation=lambda u, diffusion: u["t"] - diffusion * u["xx"],
        coefficients={"diffusion": diffusion},
        initial=lambda x: torch.stack([a * torch.sin(k * math.pi * x) for k, a in _WAVES]).sum(0),
        symmetry={"x": "periodic-odd"},
        reference=lambda: solution,
        invariants={"energy": Invariant(lambda u, diffusion: u.value**2, "decaying")},
    )
