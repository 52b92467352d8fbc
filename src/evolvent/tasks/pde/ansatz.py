"""How a network is a solution: by itself, or with boundary values, initial values or known kinks built in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import torch
from torch import Tensor

from evolvent.equations.problems import Problem

Hardness = Literal["soft", "hard"]
Number = TypeVar("Number", float, Tensor)


@dataclass(frozen=True)
class Ansatz:
    r"""How a network :math:`N` is a solution.

    A hard initial value is blended in, :math:`e^{-t / \tau} u_0 + (1 - e^{-t / \tau}) N`.

    Attributes:
        initial: ``hard`` blends the initial value in.
        blend: :math:`\tau` as a share of the time.
        boundary: ``hard`` builds the values on the boundary of space in, by a factor that vanishes there.
        profile: add the problem's known profile, so that the network is only what is left.
    """

    initial: Hardness = "soft"
    blend: float = 0.1
    boundary: Hardness = "soft"
    profile: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether the network alone is the solution."""
        return self.initial == self.boundary == "soft" and not self.profile

    def fitted_to(self, problem: Problem) -> Ansatz:
        """Without what the problem does not have."""
        initial, profile = problem.initial is not None, problem.profile is not None
        return replace(self, initial=self.initial if initial else "soft", profile=self.profile and profile)

    def solution(self, problem: Problem, model: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
        """u at points, (N, coordinates) to (N, unknowns)."""
        u = model(points)
        if self.profile and problem.profile is not None:
            u = u + problem.profile_values(points)
        if self.boundary == "hard" and problem.boundary is not None:
            u = problem.boundary_values(points) + problem.inside(points) * u
        if self.initial == "soft" or problem.initial is None:
            return u
        at = problem.coordinates.index(problem.time)
        since = points[:, at : at + 1] - problem.domain[problem.time][0]
        share = torch.exp(since * (-1 / (self.blend * problem.duration)))
        return share * problem.initial_values(points) + (1 - share) * u


def coefficient_of(guess: float, factor: Number) -> Number:
    """A coefficient that is looked for: the first guess times a trained factor, which is 1 to begin with.

    So coefficients of very different size are all of order one to the optimiser; a guess of 0 is added to.

    >>> coefficient_of(1e-4, 1.5), coefficient_of(0.0, 1.5)
    (0.00015000000000000001, 0.5)
    """
    return guess * factor if guess else factor - 1.0
