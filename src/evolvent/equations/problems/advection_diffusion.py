"""Advection and diffusion: waves that are carried along and fade."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evolvent.equations.problems.problem import Problem
from evolvent.equations.problems.registry import register_problem

_WAVES = ((1, 1.0), (3, 0.5))  # wave number and amplitude


@register_problem("advection-diffusion")
def advection_diffusion(speed: float = 2.0, diffusion: float = 0.02, until: float = 1.0) -> Problem:
    r"""Advection-diffusion equation with period 2; its solution is known in closed form.

    .. math:: u_t + c u_x = D u_{xx}, \qquad u(x, 0) = \sin \pi x + \tfrac 12 \sin 3 \pi x
    """

    def waves(x: Tensor, t: Tensor | float) -> Tensor:
        fading = lambda k: torch.exp(torch.as_tensor(-diffusion * (k * math.pi) ** 2 * t))  # noqa: E731
        return torch.stack([a * fading(k) * torch.sin(k * math.pi * (x - speed * t)) for k, a in _WAVES]).sum(0)

    return Problem(
        name="advection-diffusion",
        title="Advection-diffusion equation",
        domain={"x": (-1.0, 1.0), "t": (0.0, until)},
        equation=lambda u, speed, diffusion: u["t"] + speed * u["x"] - diffusion * u["xx"],
        coefficients={"speed": speed, "diffusion": diffusion},
        initial=lambda x: torch.stack([a * torch.sin(k * math.pi * x) for k, a in _WAVES]).sum(0),
        symmetry={"x": "periodic"},
        reference=lambda: lambda points: waves(*points.double().split(1, dim=1)),
    )
