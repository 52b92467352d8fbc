"""Gradients of reversible evolutions without stored states."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from evolvent import integrators
from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.first_order import first_order_only, wants_backward
from evolvent._core.state import State, parts, square
from evolvent.gradients._contract import STRATEGIES, GradientStrategy, Propagator, whole_number
from evolvent.gradients.replay import Accumulator, Replay, trainable
from evolvent.gradients.symmetric_undoing import SymmetricUndoing
from evolvent.gradients.undoing import Undoing, couplings_at, reversible, undo_coupling
from evolvent.integrators import Integrator, ReversibleIntegrator


class Reversible(GradientStrategy):
    """Stores the last state only and reconstructs the others from it while gradients travel back.

    Memory does not depend on the number of steps; time is 4/3 of backpropagation's, since each step is computed once
    more (Gomez et al. 2017, Chang et al. 2018). Rounding errors grow on the way back: in float32 look at
    :meth:`report` or :func:`reconstruction_error`, and store anchors if they are too large.

    Random numbers (dropout), mixed precision and running statistics are those of one forward pass. Every trainable
    tensor that the dynamics use must be a parameter of the evolution.

    Args:
        anchor_every: store one state in so many steps, from which the reconstruction restarts.
        check: keep the first state, too, and compare it with its reconstruction; see :meth:`report`.
    """

    name = "reversible"

    def __init__(self, anchor_every: int | None = None, *, check: bool = False) -> None:
        if anchor_every is not None:
            check_whole(anchor_every=anchor_every)
        self.anchor_every = anchor_every
        self.check = check
        self._errors: list[float] = []

    def check_method(self, integrator: Integrator[Any]) -> None:
        if not isinstance(integrator, ReversibleIntegrator):
            raise ConfigError(
                f"the gradient strategy 'reversible' undoes steps, but those of {integrator} cannot be undone. "
                f"Use {_reversible_methods()}, or the strategy 'checkpoint', which takes every method."
            )

    def propagate(self, evolution: Propagator, u: State) -> State:
        self.check_method(evolution.integrator)
        start, parameters = parts(u), trainable(evolution)
        if not wants_backward(*start, *parameters):
            return _advance(evolution, start, None, [], None)
        return _Reversed.apply(self, evolution, len(start), *start, *parameters)  # pyright: ignore[reportReturnType]

    def report(self) -> float | None:
        """With ``check``: the largest relative error of a reconstructed first state since the last report."""
        worst = max(self._errors, default=None)
        self._errors = []
        return worst

    @classmethod
    def from_text(cls, *options: str) -> Self:
        if len(options) > 1:
            raise ConfigError(f"'reversible' takes one option, the distance of anchors, got {':'.join(options)!r}.")
        return cls(*(whole_number(option, "the distance of anchors") for option in options))

    @property
    def text(self) -> str:
        return self.name if self.anchor_every is None else f"{self.name}:{self.anchor_every}"

    def __repr__(self) -> str:
        return f"Reversible({'' if self.anchor_every is None else f'anchor_every={self.anchor_every}'})"


STRATEGIES.add(Reversible.name, Reversible)


class _Reversed(torch.autograd.Function):
    """All steps of an evolution as one function of the first state's parts and the parameters."""

    @staticmethod
    def forward(ctx: Any, strategy: Reversible, evolution: Propagator, count: int, *tensors: Tensor) -> Any:
        start, parameters = tensors[:count], tensors[count:]
        replay, anchors = Replay(evolution.modules(), start), []
        with replay.first():
            end = _advance(evolution, start, replay, anchors, strategy.anchor_every)
        first = start if strategy.check else ()
        ctx.save_for_backward(*end, *(part for state in anchors for part in state), *first)
        ctx.strategy, ctx.evolution, ctx.replay = strategy, evolution, replay
        ctx.count, ctx.parameters = count, parameters
        ctx.set_materialize_grads(False)
        return end

    @staticmethod
    @first_order_only
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        saved, count = ctx.saved_tensors, ctx.count
        states = [saved[i : i + count] for i in range(0, len(saved), count)]
        sums = Accumulator(ctx.parameters)
        kind = SymmetricUndoing if SymmetricUndoing.suits(ctx.evolution, ctx.replay) else Undoing
        walk = kind(ctx.evolution, states[0], cotangents, sums, ctx.replay)
        every = ctx.strategy.anchor_every
        with ctx.replay.again():
            for j in reversed(range(ctx.evolution.steps)):
                if every and (j + 1) % every == 0 and j + 1 < ctx.evolution.steps:
                    walk.put(states[(j + 1) // every])
                walk.undo(j)
        if ctx.strategy.check:
            ctx.strategy._errors.append(_relative_error(walk.state, states[-1]))
        return None, None, None, *walk.cotangents, *sums.gradients()


def reconstruction_error(evolution: Propagator, u0: State) -> float:
    """How far steps and their undoing end from where they began, relative to the first state.

    Args:
        evolution: with a reversible method; its running statistics and the random numbers are not touched.
        u0: what :meth:`Evolution.forward` takes.

    >>> from evolvent import Evolution, dynamics, integrators
    >>> flow = Evolution(dynamics.Hamiltonian(2), integrators.Verlet(), steps=9, step_size=0.1)
    >>> reconstruction_error(flow, torch.randn(1, 4, 8, 8)) < 1e-4
    True
    """
    Reversible().check_method(evolution.integrator)
    f = evolution.dynamics_at(0)
    entered = f.enter(u0) if isinstance(u0, Tensor) else u0
    start = parts(evolution.integrator.start(f, 0.0, entered, evolution.step_size))
    replay = Replay(evolution.modules(), start)
    with torch.no_grad(), replay.again():
        with replay.first():
            end = _advance(evolution, start, replay, [], None)
        return _relative_error(_undone(evolution, end, replay), start)


def _advance(
    evolution: Propagator,
    start: tuple[Tensor, ...],
    replay: Replay | None,
    anchors: list[tuple[Tensor, ...]],
    every: int | None,
) -> tuple[Tensor, ...]:
    """The state after all steps; states in between are added to ``anchors``."""
    state, arrangement = list(start), reversible(evolution).arrangement
    for j in range(evolution.steps):
        if every and j and j % every == 0:
            anchors.append(tuple(state))
        for target, source, sign, g in couplings_at(evolution, j):
            if replay is not None:
                replay.mark()
            change = g(state[source])
            state[target] = state[target] + change if sign > 0 else change - state[target]
        state = [state[k] for k in arrangement]
    return tuple(state)


def _undone(evolution: Propagator, end: tuple[Tensor, ...], replay: Replay) -> list[Tensor]:
    state, arrangement = list(end), reversible(evolution).arrangement
    for j in reversed(range(evolution.steps)):
        before = dict(zip(arrangement, state, strict=True))
        state, couplings = [before[k] for k in range(len(before))], couplings_at(evolution, j)
        for i, coupling in reversed(list(enumerate(couplings))):
            replay.rewind(j * len(couplings) + i)
            undo_coupling(state, coupling, coupling.g(state[coupling.source]))
    return state


def _relative_error(found: list[Tensor], expected: tuple[Tensor, ...]) -> float:
    off = square(a - b for a, b in zip(found, expected, strict=True))
    return (off.sqrt() / square(expected).sqrt().clamp_min(1e-300)).item()


def _reversible_methods() -> str:
    names = [name for name in integrators.__all__ if _is_reversible_method(getattr(integrators, name))]
    return " or ".join(f"{name}()" for name in names)


def _is_reversible_method(kind: object) -> bool:
    abstract = getattr(kind, "__abstractmethods__", ())
    return isinstance(kind, type) and issubclass(kind, ReversibleIntegrator) and not abstract
