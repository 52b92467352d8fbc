"""Backpropagation through all steps, with every state stored, or some of them and the others computed again."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.first_order import first_order_only, wants_backward
from evolvent._core.state import State, parts
from evolvent.gradients._contract import STRATEGIES, GradientStrategy, Propagator, whole_number
from evolvent.gradients.binomial import next_stored, stored_positions
from evolvent.gradients.replay import Accumulator, Replay, Weights, trainable, untouched_statistics
from evolvent.gradients.undoing import pull_back


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


class Checkpoint(GradientStrategy):
    r"""Stores some states and computes the steps between them again when gradients travel back; for every method.

    - ``Checkpoint(k)`` stores every :math:`k`-th state; all steps between two of them are kept at a time.
    - ``Checkpoint("sqrt")`` does so with :math:`k = \lceil\sqrt{steps}\rceil`: memory :math:`O(\sqrt{steps})`, each
      step is computed once more (Chen et al. 2016).
    - ``Checkpoint(stored=s)`` holds :math:`s` states besides the one at hand, and one step at a time; it computes as
      few steps again as that allows: the binomial schedule of Griewank and Walther 2000.

    Random numbers (dropout), mixed precision and running statistics are those of one forward pass.

    Args:
        every: distance of stored states, or ``"sqrt"``.
        stored: number of states of the binomial schedule, the first among them; excludes ``every``.
    """

    name = "checkpoint"

    def __init__(self, every: int | Literal["sqrt"] | None = None, *, stored: int | None = None) -> None:
        if every is not None and stored is not None:
            raise ConfigError(f"checkpoint takes every or stored, got both: every={every!r}, stored={stored}.")
        if isinstance(every, str) and every != "sqrt":
            raise ConfigError(f"every must be a whole number or 'sqrt', got {every!r}.")
        if stored is not None:
            check_whole(stored=stored)
        if every not in (None, "sqrt"):
            check_whole(every=every)
        self.every = "sqrt" if every is None and stored is None else every
        self.stored = stored

    def propagate(self, evolution: Propagator, u: State) -> State:
        if self.stored is None:
            return self._by_segments(evolution, u)
        start, parameters = parts(u), trainable(evolution)
        if not wants_backward(*start, *parameters):
            return _steps(evolution, 0, evolution.steps, u)
        end = _Binomial.apply(self.stored, evolution, len(start), *start, *parameters)
        return end if isinstance(u, tuple) else end[0]  # pyright: ignore[reportReturnType, reportOptionalSubscript]

    def _by_segments(self, evolution: Propagator, u: State) -> State:
        length = self.every if isinstance(self.every, int) else math.ceil(math.sqrt(evolution.steps))

        for j in range(0, evolution.steps, length):
            end = min(j + length, evolution.steps)
            contexts = partial(_contexts, _modules(evolution, j, end))
            u = checkpoint(_segment(evolution, j, end), u, use_reentrant=False, context_fn=contexts)  # pyright: ignore[reportAssignmentType]
        return u

    @classmethod
    def from_text(cls, *options: str) -> Self:
        match options:
            case ():
                return cls()
            case ("sqrt",):
                return cls("sqrt")
            case ("binomial", stored):
                return cls(stored=whole_number(stored, "the number of stored states"))
            case (every,) if every.isdecimal():
                return cls(whole_number(every, "the distance of stored states"))
        raise ConfigError(
            f"checkpoint is written 'checkpoint:4', 'checkpoint:sqrt' or 'checkpoint:binomial:5', "
            f"got {':'.join((cls.name, *options))!r}."
        )

    @property
    def text(self) -> str:
        return f"{self.name}:{self.every}" if self.stored is None else f"{self.name}:binomial:{self.stored}"

    def __repr__(self) -> str:
        return f"Checkpoint({self.every!r})" if self.stored is None else f"Checkpoint(stored={self.stored})"


STRATEGIES.add(Checkpoint.name, Checkpoint)


class _Again(ExitStack):
    """Steps computed again need the weights of the first time and leave running statistics as they are; second
    derivatives enter it more than once."""

    def __init__(self, modules: list[nn.Module]) -> None:
        super().__init__()
        self.modules, self.weights = modules, Weights(modules)

    def __enter__(self) -> Self:
        self.weights.check()
        self.enter_context(untouched_statistics(self.modules))
        return self


def _contexts(modules: list[nn.Module]) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Of the first computation and of later ones."""
    return nullcontext(), _Again(modules)


def _modules(evolution: Propagator, begin: int, end: int) -> list[nn.Module]:
    """What some steps call; optimisers that act during the backward pass may change the others before."""
    called = dict.fromkeys([evolution.integrator, *(evolution.dynamics_at(j) for j in range(begin, end))])
    return [module for one in called if isinstance(one, nn.Module) for module in one.modules()]


def _steps(evolution: Propagator, begin: int, end: int, u: State) -> State:
    for j in range(begin, end):
        u = evolution.step(j, u)
    return u


def _segment(evolution: Propagator, begin: int, end: int) -> Callable[[State], State]:
    return lambda u: _steps(evolution, begin, end, u)


class _Binomial(torch.autograd.Function):
    """All steps of an evolution as one function of the first state's parts and the parameters."""

    @staticmethod
    def forward(ctx: Any, stored: int, evolution: Propagator, count: int, *tensors: Tensor) -> Any:
        state, parameters = tensors[:count], tensors[count:]
        ctx.evolution, ctx.parameters, ctx.stored, ctx.count = evolution, parameters, stored, count
        ctx.replay, last = Replay(evolution.modules(), state), evolution.steps - 1
        ctx.positions = stored_positions(evolution.steps, stored)
        ctx.places = sorted({*ctx.positions, last})  # the last step is differentiated first, from the state at hand
        kept = []
        with ctx.replay.first():
            for j in range(evolution.steps):
                kept += state if j in ctx.places else ()
                ctx.replay.mark()
                state = _one(evolution, j, state)
        ctx.save_for_backward(*kept)
        ctx.set_materialize_grads(False)
        return state

    @staticmethod
    @first_order_only
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        saved, count = list(ctx.saved_tensors), ctx.count
        states = {place: tuple(saved[i * count : (i + 1) * count]) for i, place in enumerate(ctx.places)}
        walk = _Walk(ctx.evolution, ctx.replay, cotangents, Accumulator(ctx.parameters))
        end = ctx.places[-1]
        with ctx.replay.again():
            walk.reverse(end, end + 1, states[end], 1)
            for i, begin in reversed(list(enumerate(ctx.positions))):
                if begin < end:
                    walk.reverse(begin, end, states[begin], ctx.stored - i)
                    end = begin
        return None, None, None, *walk.cotangents, *walk.sums.gradients()


class _Walk:
    """Cotangents on their way back through steps whose states are computed from the stored ones."""

    def __init__(
        self, evolution: Propagator, replay: Replay, cotangents: tuple[Tensor | None, ...], sums: Accumulator
    ) -> None:
        self.evolution, self.replay, self.cotangents, self.sums = evolution, replay, cotangents, sums

    def reverse(self, begin: int, end: int, state: tuple[Tensor, ...], stored: int) -> None:
        """Go back from ``end`` to ``begin``, where ``state`` is stored, with room for ``stored - 1`` more."""
        while end - begin > 1:
            middle = begin + next_stored(end - begin, stored) if stored > 1 else end - 1
            self.reverse(middle, end, self._advance(begin, middle, state), max(stored - 1, 1))
            end = middle
        self._differentiate(begin, state)

    def _advance(self, begin: int, end: int, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        with torch.no_grad():
            for j in range(begin, end):
                self.replay.rewind(j)
                state = _one(self.evolution, j, state)
        return state

    def _differentiate(self, j: int, state: tuple[Tensor, ...]) -> None:
        with torch.enable_grad():
            arguments = [part.detach().requires_grad_() for part in state]
            self.replay.rewind(j)
            results = _one(self.evolution, j, tuple(arguments))
            self.cotangents = pull_back(results, arguments, self.cotangents, self.sums)


def _one(evolution: Propagator, j: int, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """One step on a tuple of parts, whatever the evolution's state is."""
    lone = len(state) == 1
    return parts(evolution.step(j, state[0] if lone else state))
