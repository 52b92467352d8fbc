"""The solve for all layers and its adjoint solve, as one differentiable function."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError, NonFiniteError
from evolvent._core.first_order import first_order_only, wants_backward
from evolvent._core.state import State, like, parts
from evolvent.gradients._contract import Propagator
from evolvent.gradients.layer_distribution import Ranks, shared_buffers
from evolvent.gradients.mgrit import Apply, Levels, Parts
from evolvent.gradients.replay import trainable, untouched_statistics


class StridedPropagator(Propagator, Protocol):
    """Steps that can also be made several at once, by one long step: the coarse levels."""

    def step(self, j: int, u: State, stride: int = 1) -> State: ...


class Solver(Protocol):
    """Gives the states at all local points, from the first state on."""

    def __call__(self, direction: str, levels: Levels, ranks: Ranks, start: Parts, apply: Apply) -> list[Parts]: ...


def solve_layers(evolution: StridedPropagator, u: State, levels: Levels, ranks: Ranks, solver: Solver) -> State:
    """The state after all steps, on all processes.

    Args:
        evolution: the steps.
        u: the state before them.
        levels, ranks: the steps of this process and its neighbours.
        solver: used in both directions, ``"forward"`` and ``"backward"``.
    """
    weights = trainable(evolution)
    problem = _Problem(evolution, levels, ranks, solver, isinstance(u, tuple), len(parts(u)))
    if wants_backward(*parts(u), *weights):
        result = _Solve.apply(problem, *parts(u), *weights)
    else:
        result, _ = problem.forward(parts(u), taped=False)
    assert isinstance(result, tuple)
    return like(u, result)


class _Taped(NamedTuple):
    """A step with its graph."""

    before: Parts  # leaves
    after: Parts

    def pull_back(self, adjoint: Parts) -> Parts:
        return torch.autograd.grad(self.after, self.before, adjoint, retain_graph=True, materialize_grads=True)

    def reached(self, used: Sequence[bool]) -> list[bool]:
        """Which parts of the state before it the ``used`` parts of the state after it depend on."""
        ends = list(itertools.compress(self.after, used))
        zeros = [torch.zeros_like(p) for p in ends]
        found = torch.autograd.grad(ends, self.before, zeros, retain_graph=True, allow_unused=True)
        return [g is not None for g in found]


@dataclass(frozen=True)
class _Problem:
    evolution: StridedPropagator
    levels: Levels
    ranks: Ranks
    solver: Solver
    paired: bool  # whether states are tuples
    count: int  # tensors of a state

    def step(self, level: int, k: int, u: Parts) -> Parts:
        first, stride = self.levels.steps[level][k]
        try:
            return parts(self.evolution.step(first, u if self.paired else u[0], stride))
        except (ConfigError, NonFiniteError) as error:
            if stride == 1:
                raise
            raise type(error)(
                f"{error} Here {stride} steps are one on a coarse level: use a smaller coarsening."
            ) from None

    def forward(self, start: Parts, *, taped: bool) -> tuple[Parts, list[list[_Taped]]]:
        """The last state, and the steps of every level with their graphs."""
        with untouched_statistics(self.evolution.modules()), torch.no_grad():
            states = self.solver("forward", self.levels, self.ranks, start, self.step)
            tapes = [self.record(level, states) for level in range(1, len(self.levels.steps)) if taped]
        with shared_buffers(self.evolution, self.ranks.group) as buffers, torch.no_grad():
            if taped:
                tapes.insert(0, self.record(0, states))
            elif buffers:
                for k in range(len(self.levels.steps[0])):
                    self.step(0, k, states[k])
        return tuple(p.clone() for p in self.ranks.from_last(states[-1])), tapes

    def record(self, level: int, states: Sequence[Parts]) -> list[_Taped]:
        """Every step of a level from the solved state at its beginning."""
        tape = []
        for k, (first, _) in enumerate(self.levels.steps[level]):
            with torch.enable_grad():
                at_beginning = states[first - self.levels.steps[0][0].first]
                before = tuple(p.detach().requires_grad_() for p in at_beginning)
                tape.append(_Taped(before, self.step(level, k, before)))
        return tape

    def backward(self, adjoint: Parts, tapes: Sequence[Sequence[_Taped]]) -> list[Parts]:
        """The adjoint states at all local points, from the first point on."""

        def pull_back(level: int, k: int, adjoint: Parts) -> Parts:
            return tapes[level][-1 - k].pull_back(adjoint)

        return self.solver("backward", self.levels.reversed(), self.ranks.reversed(), adjoint, pull_back)[::-1]


class _Solve(torch.autograd.Function):
    """As a function of initial state and parameters."""

    @staticmethod
    def forward(ctx: Any, problem: _Problem, *tensors: Tensor) -> Parts:
        start = tensors[: problem.count]
        result, ctx.tapes = problem.forward(start, taped=True)
        ctx.problem, ctx.start, ctx.weights = problem, start, tensors[problem.count :]
        ctx.set_materialize_grads(False)
        return result

    @staticmethod
    @first_order_only
    def backward(ctx: Any, *adjoint: Tensor | None) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        problem: _Problem = ctx.problem
        whole = tuple(torch.zeros_like(p) if a is None else a for a, p in zip(adjoint, ctx.start, strict=True))
        adjoints = problem.backward(whole, ctx.tapes)
        used = [a is not None or problem.ranks.downstream is not None for a in adjoint]
        gradients = _weight_gradients(ctx.tapes[0], adjoints, ctx.weights, used)
        return None, *problem.ranks.from_first(adjoints[0]), *problem.ranks.sum_gradients(gradients, ctx.weights)


def _weight_gradients(
    tape: Sequence[_Taped], adjoints: Sequence[Parts], weights: Sequence[Tensor], used: Sequence[bool]
) -> Sequence[Tensor | None]:
    """Of every parameter, over the layers of this process; None if no ``used`` part of the last state needs it."""
    ends, factors = [], []
    for step, adjoint in zip(reversed(tape), reversed(adjoints), strict=False):
        ends += itertools.compress(step.after, used)
        factors += itertools.compress(adjoint, used)
        used = used if all(used) else step.reached(used)
    if not ends or not weights:
        return [None] * len(weights)
    return torch.autograd.grad(ends, weights, factors, retain_graph=True, allow_unused=True)
