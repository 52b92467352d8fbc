"""The Kuramoto-Sivashinsky equation: waves that grow, tilt and end in chaos."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.problem import Problem, Reference
from evolvent.equations.problems.registry import register_problem
from evolvent.equations.references import PeriodicEquation, solve_periodic


def _initial(x: Tensor) -> Tensor:
    return torch.cos(x) * (1 + torch.sin(x))


@register_problem("kuramoto-sivashinsky")
def kuramoto_sivashinsky(
    steepening: float = 100 / 16, growth: float = 100 / 16**2, damping: float = 100 / 16**4, until: float = 1.0
) -> Problem:
    r"""Kuramoto-Sivashinsky equation with period :math:`2 \pi` (Kassam and Trefethen 2005, rescaled).

    .. math:: u_t + \alpha u u_x + \beta u_{xx} + \gamma u_{xxxx} = 0, \qquad u(x, 0) = \cos x\, (1 + \sin x)

    The solution is chaotic from about t = 0.4; errors of the reference grow with it.
    """

    def reference() -> Reference:
        equation = PeriodicEquation(lambda k: growth * k**2 - damping * k**4, flux=lambda u: steepening * u**2 / 2)
        start = lambda x: _initial(torch.from_numpy(x)).numpy()  # noqa: E731
        return solve_periodic(equation, start, 0, 2 * math.pi, until, tolerance=1e-7)

    return Problem(
        name="kuramoto-sivashinsky",
        title="Kuramoto-Sivashinsky equation",
        domain={"x": (0.0, 2 * math.pi), "t": (0.0, until)},
        equation=lambda u, steepening, growth, damping: (
            u["t"] + steepening * u.value * u["x"] + growth * u["xx"] + damping * u["xxxx"]
        ),
        coefficients={"steepening": steepening, "growth": growth, "damping": damping},
        initial=_initial,
        symmetry={"x": "periodic"},
        reference=reference,
        invariants={"mass": Invariant(lambda u, **_: u.value)},
    )
