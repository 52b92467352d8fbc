"""How a network is a solution: by itself, or with boundary and initial values built in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from torch import Tensor

from evolvent.equations.problems import Problem

Hardness = Literal["soft", "hard"]
Number = TypeVar("Number", float, Tensor)


def solution_of(
    problem: Problem,
    model: Callable[[Tensor], Tensor],
    points: Tensor,
    initial: Hardness,
    blend: float,
    boundary: Hardness = "soft",
) -> Tensor:
    r"""u at points: the network, or with a hard initial value :math:`e^{-t / \tau} u_0 + (1 - e^{-t / \tau}) N`.

    Args:
        problem: that gives the values.
        model: :math:`N`.
        points: (N, coordinates).
        initial: ``hard`` blends the initial value in.
        blend: :math:`\tau` as a share of the time.
        boundary: ``hard`` builds the values on the boundary of space in, by a factor that vanishes there.
    """
    u = model(points)
    if boundary == "hard" and problem.boundary is not None:
        u = problem.boundary_values(points) + problem.inside(points) * u
    if initial == "soft" or problem.initial is None:
        return u
    at = problem.coordinates.index(problem.time)
    since = points[:, at : at + 1] - problem.domain[problem.time][0]
    share = torch.exp(since * (-1 / (blend * problem.duration)))
    return share * problem.initial_values(points) + (1 - share) * u


def coefficient_of(guess: float, factor: Number) -> Number:
    """A coefficient that is looked for: the first guess times a trained factor, which is 1 to begin with.

    So coefficients of very different size are all of order one to the optimiser; a guess of 0 is added to.

    >>> coefficient_of(1e-4, 1.5), coefficient_of(0.0, 1.5)
    (0.00015000000000000001, 0.5)
    """
    return guess * factor if guess else factor - 1.0
