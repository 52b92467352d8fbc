"""Initial value problems with known solutions, one for each kind of dynamics that methods act on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent._core.state import State
from evolvent.dynamics import Dynamics, PartitionedDynamics, SecondOrderDynamics, SplitDynamics
from evolvent.integrators import Integrator


@dataclass(frozen=True)
class Problem:
    """An initial value problem whose solution is known.

    Attributes:
        dynamics: right-hand side, in float64.
        solution: the solution as a function of time.
        end: the problem runs from 0 to here.
        observe: what of a state a method's order is that of; all of it unless given.
    """

    name: str
    dynamics: Dynamics
    solution: Callable[[float], State]
    end: float
    observe: Callable[[State], State] = lambda u: u


class Forced(Dynamics):
    r"""A coupled nonlinear system, driven so that a positive :math:`w` solves it.

    .. math:: u_1' = w_1' + u_1 u_2 - w_1 w_2, \qquad u_2' = w_2' - 2 \sin u_1 + 2 \sin w_1

    with :math:`w(t) = (2 + \sin 2t,\; 2 + \cos 3t)`. Time stands in it explicitly and the Jacobians at different times
    do not commute, so that no order condition holds by chance.
    """

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        w = self.solution(t)
        (u1, u2), (w1, w2) = u.unbind(-1), w.unbind(-1)
        pull = torch.stack([u1 * u2 - w1 * w2, 2 * (w1.sin() - u1.sin())], dim=-1)
        return _row(2 * math.cos(2 * t), -3 * math.sin(3 * t)) + pull

    @staticmethod
    def solution(t: float) -> Tensor:
        return _row(2 + math.sin(2 * t), 2 + math.cos(3 * t))


class ForcedPair(PartitionedDynamics):
    r"""Two parts that drive each other, :math:`y' = \eta' + z^2 - \zeta^2` and
    :math:`z' = \zeta' - \sin y + \sin \eta`, with the solution
    :math:`\eta = 2 + \sin 2t,\; \zeta = 1 + \tfrac12 \cos 3t`.
    """

    def dy(self, t: float, z: Tensor) -> Tensor:
        return z.square() + (2 * math.cos(2 * t) - (1 + 0.5 * math.cos(3 * t)) ** 2)

    def dz(self, t: float, y: Tensor) -> Tensor:
        return -y.sin() + (math.sin(2 + math.sin(2 * t)) - 1.5 * math.sin(3 * t))

    @staticmethod
    def solution(t: float) -> tuple[Tensor, Tensor]:
        return _row(2 + math.sin(2 * t)), _row(1 + 0.5 * math.cos(3 * t))


class ForcedOscillator(SecondOrderDynamics):
    r"""A pendulum, :math:`u'' = -\sin u + w'' + \sin w`, driven so that :math:`w = 2 + \sin 2t` solves it."""

    def acceleration(self, t: float, u: Tensor) -> Tensor:
        return -u.sin() + (math.sin(2 + math.sin(2 * t)) - 4 * math.sin(2 * t))

    @staticmethod
    def solution(t: float) -> tuple[Tensor, Tensor]:
        return _row(2 + math.sin(2 * t)), _row(2 * math.cos(2 * t))


class ForcedSplit(SplitDynamics):
    r"""The system of :class:`Forced`, of which :math:`-L u` with
    :math:`L = \begin{pmatrix} 2 & 1 \\ 1 & 3 \end{pmatrix}` is called stiff.
    """

    def __init__(self) -> None:
        super().__init__()
        self.whole = Forced()
        self.matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)

    def explicit(self, t: float, u: Tensor) -> Tensor:
        return self.whole(t, u) + self.stiff(t, u)

    def stiff(self, t: float, u: Tensor) -> Tensor:
        return u @ self.matrix

    def solve(self, t: float, u: Tensor, h: float) -> Tensor:
        return torch.linalg.solve(torch.eye(2, dtype=u.dtype) + h * self.matrix, u.mT).mT


def problem_for(integrator: Integrator[Any]) -> Problem:
    """The nonlinear problem that a method's order is measured on.

    Raises:
        ConfigError: for a method that acts on dynamics of its own kind; give its check a problem then.
    """
    known = {
        Dynamics: Problem("forced", Forced(), Forced.solution, 1.0),
        PartitionedDynamics: Problem("forced pair", ForcedPair(), ForcedPair.solution, 1.0),
        SecondOrderDynamics: Problem(
            "forced oscillator", ForcedOscillator(), ForcedOscillator.solution, 1.0, lambda u: u[0]
        ),
        SplitDynamics: Problem("forced split", ForcedSplit(), Forced.solution, 1.0),
    }
    if integrator.acts_on in known:
        return known[integrator.acts_on]
    raise ConfigError(
        f"there is no problem for {integrator.acts_on.__name__}, which {integrator} acts on; pass a Problem."
    )


def _row(*values: float) -> Tensor:
    """One sample with these channels, in float64."""
    return torch.tensor([values], dtype=torch.float64)
