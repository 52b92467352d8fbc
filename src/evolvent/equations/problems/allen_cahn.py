"""The Allen-Cahn equation: phases that separate, with sharp walls between them."""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.problem import Problem, Reference
from evolvent.equations.problems.registry import register_problem
from evolvent.equations.references import PeriodicEquation, solve_periodic
from evolvent.equations.terms import Derivatives


def _initial(x: Tensor) -> Tensor:
    return x**2 * torch.cos(torch.pi * x)


def _energy(u: Derivatives, diffusion: float, reaction: float) -> Tensor:
    return diffusion / 2 * u["x"] ** 2 + reaction / 4 * (1 - u.value**2) ** 2


@register_problem("allen-cahn")
def allen_cahn(diffusion: float = 1e-4, reaction: float = 5.0, until: float = 1.0) -> Problem:
    r"""Allen-Cahn equation with period 2 (Raissi et al. 2019; Kim et al., *PR-Net*, eq. 10).

    .. math:: u_t = D u_{xx} + r (u - u^3), \qquad u(x, 0) = x^2 \cos \pi x

    The initial value has a kink at the ends of the period. Its waves decay slowly: 512 of them leave an error of
    1.2e-5, relative, in the mean over space and time, 4,096 one of 2e-7.
    """

    def reference() -> Reference:
        equation = PeriodicEquation(lambda k: reaction - diffusion * k**2, source=lambda u: -reaction * u * u * u)
        start = lambda x: _initial(torch.from_numpy(x)).numpy()  # noqa: E731
        return solve_periodic(equation, start, -1, 1, until, modes=4096, tolerance=1e-8)

    return Problem(
        name="allen-cahn",
        title="Allen-Cahn equation",
        domain={"x": (-1.0, 1.0), "t": (0.0, until)},
        equation=lambda u, diffusion, reaction: u["t"] - diffusion * u["xx"] - reaction * (u.value - u.value**3),
        coefficients={"diffusion": diffusion, "reaction": reaction},
        initial=_initial,
        symmetry={"x": "periodic-even"},
        reference=reference,
        invariants={"free energy": Invariant(_energy, "decaying")},
        easier={"reaction": min(1.0, reaction)},
    )
