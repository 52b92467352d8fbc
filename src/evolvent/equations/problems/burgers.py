"""Burgers' equation: a sine that steepens into a shock."""

from __future__ import annotations

import math

import torch

from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.problem import Problem
from evolvent.equations.problems.registry import register_problem
from evolvent.equations.references import ColeHopf


@register_problem("burgers")
def burgers(viscosity: float = 0.01 / math.pi, until: float = 1.0) -> Problem:
    r"""Burgers' equation, odd and with period 2 (Raissi et al. 2019).

    .. math:: u_t + u u_x = \nu u_{xx}, \qquad u(x, 0) = -\sin \pi x
    """
    return Problem(
        name="burgers",
        title="Burgers' equation",
        domain={"x": (-1.0, 1.0), "t": (0.0, until)},
        equation=lambda u, viscosity: u["t"] + u.value * u["x"] - viscosity * u["xx"],
        coefficients={"viscosity": viscosity},
        initial=lambda x: -torch.sin(torch.pi * x),
        symmetry={"x": "periodic-odd"},
        reference=lambda: ColeHopf(viscosity),
        invariants={"energy": Invariant(lambda u, viscosity: u.value**2, "decaying")},
    )
