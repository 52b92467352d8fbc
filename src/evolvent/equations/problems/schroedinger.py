"""The nonlinear Schrödinger equation: a complex wave that focuses, as a system for its two parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.problem import Problem, Reference
from evolvent.equations.problems.registry import register_problem
from evolvent.equations.references import PeriodicEquation, solve_periodic
from evolvent.equations.terms import Derivatives


def _equation(u: Derivatives, dispersion: float, focusing: float) -> Sequence[Tensor]:
    real, imaginary = u.component(0), u.component(1)
    density = focusing * (real.value**2 + imaginary.value**2)
    return [
        real["t"] + dispersion * imaginary["xx"] + density * imaginary.value,
        imaginary["t"] - dispersion * real["xx"] - density * real.value,
    ]


def _density(h: Derivatives) -> Tensor:
    return h.value.square().sum(1, keepdim=True)


def _energy(h: Derivatives, dispersion: float, focusing: float) -> Tensor:
    return dispersion * h["x"].square().sum(1, keepdim=True) - focusing / 2 * _density(h) ** 2


@register_problem("schroedinger")
def schroedinger(
    dispersion: float = 0.5, focusing: float = 1.0, until: float = math.pi / 2, half_width: float = 5.0
) -> Problem:
    r"""Nonlinear Schrödinger equation, with period 10 in Raissi et al. 2019, for :math:`h = u + i v`.

    .. math:: i h_t + \beta h_{xx} + \kappa |h|^2 h = 0, \qquad h(x, 0) = 2 / \cosh x

    At the ends of that period the initial value has a small kink, from which short waves run through the domain; a
    larger ``half_width`` has none.
    """

    def reference() -> Reference:
        equation = PeriodicEquation(
            lambda k: -1j * dispersion * k**2, source=lambda h: 1j * focusing * np.abs(h) ** 2 * h, real=False
        )
        return solve_periodic(equation, lambda x: 2 / np.cosh(x), -half_width, half_width, until, tolerance=1e-8)

    return Problem(
        name="schroedinger",
        title="Nonlinear Schrödinger equation",
        domain={"x": (-half_width, half_width), "t": (0.0, until)},
        equation=_equation,
        coefficients={"dispersion": dispersion, "focusing": focusing},
        initial=lambda x: torch.cat([2 / torch.cosh(x), 0 * x], dim=1),
        symmetry={"x": "periodic-even"},
        unknowns=("u", "v"),
        reference=reference,
        invariants={"mass": Invariant(lambda h, **_: _density(h)), "energy": Invariant(_energy)},
    )
