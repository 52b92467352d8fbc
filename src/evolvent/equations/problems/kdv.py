"""The Korteweg-de Vries equation: a wave that breaks into solitons."""

from __future__ import annotations

import numpy as np
import torch

from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.problem import Problem, Reference
from evolvent.equations.problems.registry import register_problem
from evolvent.equations.references import PeriodicEquation, solve_periodic


@register_problem("kdv")
def kdv(steepening: float = 1.0, dispersion: float = 0.022**2, until: float = 1.0) -> Problem:
    r"""Korteweg-de Vries equation with period 2 (Zabusky and Kruskal 1965).

    .. math:: u_t + \eta u u_x + \mu^2 u_{xxx} = 0, \qquad u(x, 0) = \cos \pi x
    """

    def reference() -> Reference:
        equation = PeriodicEquation(lambda k: 1j * dispersion * k**3, flux=lambda u: steepening * u**2 / 2)
        return solve_periodic(equation, lambda x: np.cos(np.pi * x), -1, 1, until, tolerance=1e-9)

    return Problem(
        name="kdv",
        title="Korteweg-de Vries equation",
        domain={"x": (-1.0, 1.0), "t": (0.0, until)},
        equation=lambda u, steepening, dispersion: u["t"] + steepening * u.value * u["x"] + dispersion * u["xxx"],
        coefficients={"steepening": steepening, "dispersion": dispersion},
        initial=lambda x: torch.cos(torch.pi * x),
        symmetry={"x": "periodic"},
        reference=reference,
        invariants={
            "mass": Invariant(lambda u, **_: u.value),
            "momentum": Invariant(lambda u, **_: u.value**2),
            "energy": Invariant(
                lambda u, steepening, dispersion: steepening * u.value**3 - 3 * dispersion * u["x"] ** 2
            ),
        },
    )
