"""How a network is a solution: by itself, or with the initial value blended in."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from evolvent.equations.problems import Problem

Initial = Literal["soft", "hard"]


def solution_of(problem: Problem, model: nn.Module, points: Tensor, initial: Initial, blend: float) -> Tensor:
    r"""u at points: the network, or with a hard initial value :math:`e^{-t / \tau} u_0 + (1 - e^{-t / \tau}) N`.

    Args:
        problem: that gives the initial value.
        model: :math:`N`.
        points: (N, coordinates).
        initial: ``hard`` blends the initial value in.
        blend: :math:`\tau` as a share of the time.
    """
    u = model(points)
    if initial == "soft" or problem.initial is None:
        return u
    at = problem.coordinates.index(problem.time)
    since = points[:, at : at + 1] - problem.domain[problem.time][0]
    share = torch.exp(since * (-1 / (blend * problem.duration)))
    return share * problem.initial_values(points) + (1 - share) * u
