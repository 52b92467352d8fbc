"""Plain backpropagation."""

from __future__ import annotations

from evolvent._core.state import State
from evolvent.gradients._contract import STRATEGIES, GradientStrategy, Propagator


class Backprop(GradientStrategy):
    """Automatic differentiation through all steps; every intermediate state is stored.

    Memory grows with the number of steps, time is that of one backward pass.
    """

    name = "backprop"

    def propagate(self, evolution: Propagator, u: State) -> State:
        for j in range(evolution.steps):
            u = evolution.step(j, u)
        return u


STRATEGIES.add(Backprop.name, Backprop)
