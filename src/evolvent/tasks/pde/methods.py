"""What methods ask of a solution inside of the domain: a small residual, or a small energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent.equations.problems import Problem
from evolvent.tasks.pde.settings import PdeData, PdeSettings

Function = Callable[[Tensor], Tensor]


def check_method(problem: Problem, settings: PdeSettings, data: PdeData) -> None:
    """Refuse a method that does not fit the problem, or the way in which points are drawn."""
    method = settings.method
    if method != "pinn" and not data.fresh:
        raise ConfigError(f"method {method} takes new random points in each step. Set data.fresh: true.")
    if method != "pinn" and settings.library is not None:
        raise ConfigError(f"an equation is found by the method pinn, not by {method}. Leave task.library out.")
    check_suits(problem, method, settings.unknown)


def check_suits(problem: Problem, method: str, unknown: Mapping[str, float]) -> None:
    """Refuse a method that has nothing to minimise for a problem, or whose minimum would be another."""
    if method == "ritz":
        _ = problem.energy_derivatives_needed
        if unknown:
            raise ConfigError(
                f"an energy does not tell coefficients ({', '.join(unknown)}): others may just make it smaller. Use "
                "method pinn or galerkin."
            )
    elif problem.eigenvalue is not None:
        raise ConfigError(
            f"{problem.name!r} asks for an eigenvalue, for which u = 0 has no residual either. Use method ritz."
        )
    else:
        _ = problem.derivatives_needed


def energy(problem: Problem, f: Function, points: Tensor, coefficients: Mapping[str, float]) -> Tensor:
    r"""The mean of the density of the energy over points (Deep Ritz, E and Yu 2018), in units of the solution squared,

    .. math:: \frac 1N \sum_i e[u](x_i) \approx \frac{1}{|\Omega|} \int_\Omega e[u]\, dx.

    For an eigenvalue problem it is the quotient over the mean of :math:`u^2`, and :math:`(\overline{u^2} - 1)^2` is
    added so that u keeps its size.
    """
    u = problem.derivatives(f, points, problem.energy_derivatives_needed)
    mean = problem.energy_density(u, **coefficients).mean()
    if problem.eigenvalue is None:
        return mean
    size = (u.value / problem.scale).square().mean()
    return mean / size + (size - 1).square()


@torch.no_grad()
def rayleigh_quotient(problem: Problem, f: Function, points: Tensor) -> float:
    r"""The eigenvalue that belongs to u, :math:`\int e[u] / \int u^2`, from many points."""
    u = problem.derivatives(f, points, problem.energy_derivatives_needed)
    return (problem.energy_density(u).mean() / (u.value / problem.scale).square().mean()).item()
