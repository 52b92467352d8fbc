"""The Allen-Cahn equation: phases that separate, with sharp walls between them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evolvent._core.checks import check_positive
from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.kink import smoothed_kink
from evolvent.equations.problems.poisson import coordinate_names
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
    1.2e-5, relative, in the mean over space and time, 4,096 one of 2e-7. Near the kink u is about -1, where the
    reaction is about :math:`-2 r (u + 1)`, so that the kink is smoothed and decays as the profile of this problem says,
    :math:`2 e^{-2 r t} \kappa`, with :math:`\kappa` of :func:`~evolvent.equations.problems.smoothed_kink`.
    """

    def profile(x: Tensor, t: Tensor) -> Tensor:
        distance = torch.cos(x * (torch.pi / 2)) * (2 / torch.pi)  # from the ends, smooth and periodic up to its sign
        return torch.exp(t * (-2 * reaction)) * smoothed_kink(distance, t, diffusion) * 2

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
        profile=profile,
        invariants={"free energy": Invariant(_energy, "decaying")},
        easier={"reaction": min(1.0, reaction)},
    )


@register_problem("allen-cahn-front")
def allen_cahn_front(dimension: int = 4, diffusion: float = 0.1, reaction: float = 1.0, until: float = 1.0) -> Problem:
    r"""Allen-Cahn equation on :math:`[-1, 1]^d` with a front that moves along the diagonal, known in closed form.

    .. math:: u_t = D \Delta u + r (u - u^3), \qquad
       u = \frac 12 - \frac 12 \tanh \frac{b (n \cdot x - c t)}{2}, \quad
       b = \sqrt{\frac{r}{2 D}}, \quad c = 3 \sqrt{\frac{r D}{2}}, \quad n = \frac{(1, \dots, 1)}{\sqrt d}

    The stable phase 1 moves into the unstable 0. Values at the start and on the boundary are those of the front.
    """
    check_positive(diffusion=diffusion, reaction=reaction)
    steepness, speed = math.sqrt(reaction / (2 * diffusion)), 3 * math.sqrt(reaction * diffusion / 2)

    def front(t: Tensor | float, *columns: Tensor) -> Tensor:
        along = torch.cat(columns, dim=1).sum(1, keepdim=True) * dimension**-0.5
        return 0.5 - 0.5 * torch.tanh((along - speed * t) * (steepness / 2))

    def solution(points: Tensor) -> Tensor:
        *columns, t = points.double().split(1, dim=1)
        return front(t, *columns)

    return Problem(
        name="allen-cahn-front",
        title=f"Allen-Cahn front, d = {dimension}",
        domain={**dict.fromkeys(coordinate_names(dimension), (-1.0, 1.0)), "t": (0.0, until)},
        equation=lambda u, diffusion, reaction: u["t"] - diffusion * u.laplacian - reaction * (u.value - u.value**3),
        coefficients={"diffusion": diffusion, "reaction": reaction},
        initial=lambda *columns: front(0.0, *columns),
        boundary=lambda *columns: front(columns[-1], *columns[:-1]),
        reference=lambda: solution,
    )
