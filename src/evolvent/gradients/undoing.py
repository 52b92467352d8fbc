"""Walking a reversible evolution backwards: states are reconstructed, cotangents pulled back."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from evolvent.gradients._contract import Propagator
from evolvent.gradients.replay import Accumulator, Replay
from evolvent.integrators import Coupling, ReversibleIntegrator

T = TypeVar("T")


def couplings_at(evolution: Propagator, j: int) -> list[Coupling]:
    """The updates of step ``j``, in order."""
    method = reversible(evolution)
    return method.couplings(evolution.dynamics_at(j), j * evolution.step_size, evolution.step_size)


def reversible(evolution: Propagator) -> ReversibleIntegrator[Any]:
    """The evolution's method, known to be reversible."""
    assert isinstance(evolution.integrator, ReversibleIntegrator)
    return evolution.integrator


def undo_coupling(state: list[Tensor], coupling: Coupling, change: Tensor) -> None:
    """Reconstruct the part that a coupling has changed: :math:`u_a = s (u_a^+ - g(u_b))`."""
    target = coupling.target
    state[target] = state[target] - change if coupling.sign > 0 else change - state[target]


class Undoing:
    r"""States :math:`u` and cotangents :math:`a` on their way back through the steps.

    One evaluation of :math:`g` per coupling :math:`u_a^+ = s u_a + g(u_b)` serves both

    .. math:: u_a = s\,(u_a^+ - g(u_b)), \qquad
              a_b \mathrel{+}= g'(u_b)^\top a_a, \quad \bar\theta \mathrel{+}= (\partial_\theta g)^\top a_a, \quad
              a_a \leftarrow s\,a_a .

    Args:
        evolution: whose steps are undone.
        state, cotangents: at the end of them; a cotangent is None where the loss does not depend on the part.
        sums: where gradients of parameters are collected.
        replay: what the steps depended on.
    """

    def __init__(
        self,
        evolution: Propagator,
        state: Sequence[Tensor],
        cotangents: Sequence[Tensor | None],
        sums: Accumulator,
        replay: Replay,
    ) -> None:
        self.evolution = evolution
        self.state, self.cotangents = list(state), list(cotangents)
        self.sums, self.replay = sums, replay
        self.arrangement = reversible(evolution).arrangement

    def put(self, state: Sequence[Tensor]) -> None:
        """Go on from a stored state instead of the reconstructed one."""
        self.state = list(state)

    def undo(self, j: int) -> None:
        """Go back from the end of step ``j`` to its beginning."""
        self.state, self.cotangents = self._renamed(self.state), self._renamed(self.cotangents)
        count = len(couplings_at(self.evolution, j))
        for i in reversed(range(count)):
            self.replay.rewind(j * count + i)
            self._undo_one(j, i)

    def _undo_one(self, j: int, i: int) -> None:
        cotangents = self.cotangents
        with torch.enable_grad():
            # built again: parameters that depend on time have a graph that can be used only once
            coupling = couplings_at(self.evolution, j)[i]
            target, source, sign, g = coupling
            u = self.state[source].detach().requires_grad_()
            change = g(u)
            [from_u] = pull_back([change], [u], [cotangents[target]], self.sums)
        undo_coupling(self.state, coupling, change.detach())
        cotangents[source] = add(cotangents[source], from_u)
        a = cotangents[target]
        cotangents[target] = -a if sign < 0 and a is not None else a

    def _renamed(self, values: list[T]) -> list[T]:
        before = dict(zip(self.arrangement, values, strict=True))
        return [before[k] for k in range(len(before))]


def add(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """:math:`a + b`, where None is zero."""
    if b is None:
        return a
    return b if a is None else a + b


def pull_back(
    results: Sequence[Tensor], arguments: Sequence[Tensor], cotangents: Sequence[Tensor | None], sums: Accumulator
) -> tuple[Tensor | None, ...]:
    """Cotangents of ``arguments`` from those of ``results``; gradients of the parameters in between go to ``sums``."""
    given = zip(results, cotangents, strict=True)
    wanted = [(r, c.to(r.dtype)) for r, c in given if r.requires_grad and c is not None]
    if not wanted:
        return (None,) * len(arguments)
    used = parameters_behind([r for r, _ in wanted], sums.known)
    outputs, weights = zip(*wanted, strict=True)
    found = torch.autograd.grad(outputs, [*arguments, *used], weights, allow_unused=True)
    sums.add(used, found[len(arguments) :])
    return found[: len(arguments)]


def parameters_behind(results: Iterable[Tensor], known: Container[Tensor]) -> list[Tensor]:
    """The known parameters that some results were computed from, found by walking their graph."""
    pending: list[Any] = [r.grad_fn for r in results if r.grad_fn is not None]
    seen, found = set(pending), []
    while pending:
        node = pending.pop()
        leaf = getattr(node, "variable", None)  # AccumulateGrad nodes have one
        if leaf is not None and leaf in known:
            found.append(leaf)
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                pending.append(after)
    return found
