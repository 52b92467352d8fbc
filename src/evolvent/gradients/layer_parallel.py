"""Parallel in the layers: multigrid reduction in time over all steps at once."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, cast
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from evolvent._core.errors import ConfigError
from evolvent._core.state import State, parts
from evolvent.gradients._contract import STRATEGIES, GradientStrategy, Propagator, whole_number
from evolvent.gradients.replay import trainable, untouched_statistics

Parts: TypeAlias = tuple[Tensor, ...]
Apply: TypeAlias = Callable[[int, int, Parts], Parts]  # level, step of the level, state at its start


class LayerParallelWarning(UserWarning):
    """The iteration over layers ended before its tolerance was met, so value or gradient is not that of the steps."""


class StridedPropagator(Propagator, Protocol):
    """Steps that can also be made several at once, by one long step: the coarse levels."""

    def step(self, j: int, u: State, stride: int = 1) -> State: ...


class LayerParallel(GradientStrategy):
    r"""Solves for the states of all layers together by multigrid reduction in time (MGRIT), and likewise backwards.

    The forward steps are one system, :math:`u_{j+1} - \Phi_j(u_j) = 0` for all :math:`j`; the adjoint steps
    :math:`\lambda_j - \partial\Phi_j(u_j)^\top \lambda_{j+1} = 0` are another. Each is solved by V-cycles with FCF
    relaxation and the full approximation scheme (FAS), whose coarse levels make every :math:`c`-th step only, with
    step size :math:`c h`. Relaxation is independent for every interval of :math:`c` layers, so intervals go to
    different processes, and only the coarsest level is serial. Günther et al. 2020, algorithms 1 and 2.

    A solve ends when the residual at the coarse points, relative to the norm of the first state, meets the tolerance.
    Whatever the coarse step is, each cycle makes two more intervals of :math:`c` layers exact, so without a limit of
    cycles the result is that of the steps.

    Processes: rank :math:`r` owns a contiguous block of layers. All ranks hold all parameters and are given the same
    input; a rank stores the states and computes the gradients of its own layers, and gradients are then summed over
    the ranks, so that every rank has the whole gradient and optimisers stay in step. Levels are left out until every
    rank owns an interval of the coarsest; where there are more ranks than intervals, the last ranks idle.

    Steps must be functions of the state: random layers inside the dynamics are refused. Running statistics are updated
    once per step, from the solved states.

    Args:
        coarsening: :math:`c`, steps of a level that make one of the next.
        levels: number of levels, 2 or more.
        tolerance: relative residual at which a solve ends; 100 times the rounding unit unless given.
        max_iterations: limit of V-cycles; as many as make the result exact unless given.
        group: processes that share the layers, for example ``torch.distributed.group.WORLD``; this process alone
            unless given, since the processes of data parallel training have different inputs.

    Attributes:
        forward_residuals, backward_residuals: relative residual before each cycle's coarse correction, of the latest
            solve.

    >>> from evolvent import Evolution, dynamics, integrators
    >>> strategy = LayerParallel(coarsening=2)
    >>> f = [dynamics.Hamiltonian(1) for _ in range(8)]
    >>> Evolution(f, integrators.Verlet(), step_size=0.1, gradient=strategy)(torch.ones(1, 2, 3, 3)).shape
    torch.Size([1, 2, 3, 3])
    >>> len(strategy.forward_residuals) <= 4
    True
    """

    name = "layer_parallel"
    warm_start = False
    warns = True

    def __init__(
        self,
        coarsening: int = 4,
        levels: int = 2,
        tolerance: float | None = None,
        max_iterations: int | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        if coarsening < 2 or levels < 2 or (max_iterations is not None and max_iterations < 1):
            raise ConfigError(
                f"layer-parallel solves need coarsening >= 2, levels >= 2 and max_iterations >= 1, got {coarsening}, "
                f"{levels} and {max_iterations}."
            )
        self.coarsening = coarsening
        self.levels = levels
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.group = group
        self._forget()

    def propagate(self, evolution: Propagator, u: State) -> State:
        weights = trainable(evolution)
        problem = _Problem(self, cast(StridedPropagator, evolution), isinstance(u, tuple), len(parts(u)))
        if torch.is_grad_enabled() and any(p.requires_grad for p in (*parts(u), *weights)):
            result = _Solve.apply(problem, *parts(u), *weights)
        else:
            result = problem.forward(parts(u), taped=False)[0]
        assert isinstance(result, tuple)
        return result if isinstance(u, tuple) else result[0]

    @classmethod
    def from_text(cls, *options: str) -> Self:
        if len(options) > 2:
            raise ConfigError(f"{cls.name!r} takes coarsening and levels as options, got {':'.join(options)!r}.")
        coarsening, levels = [*options, *("4", "2")[len(options) :]]
        return cls(whole_number(coarsening, "coarsening"), whole_number(levels, "levels"))

    @property
    def text(self) -> str:
        return f"{self.name}:{self.coarsening}:{self.levels}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(coarsening={self.coarsening}, levels={self.levels})"

    def __deepcopy__(self, memo: dict[int, Any]) -> LayerParallel:  # a process group cannot be copied
        return type(self)(**{name: getattr(self, name) for name in self._settings()})

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._settings()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def _settings(self) -> tuple[str, ...]:
        return "coarsening", "levels", "tolerance", "max_iterations", "group"

    def _forget(self) -> None:
        self.forward_residuals: list[float] = []
        self.backward_residuals: list[float] = []
        self._memory: WeakKeyDictionary[Any, dict[str, list[Parts]]] = WeakKeyDictionary()

    def _solve(self, direction: str, key: Any, chain: _Chain, start: Parts, apply: Apply) -> list[Parts]:
        """The states at all local points, from the first state on."""
        remembered = self._memory.setdefault(key, {}) if self.warm_start else {}
        guess = remembered.get(direction)
        if guess is None or [p.shape for p in guess[0]] != [p.shape for p in start] or len(guess) != chain.points:
            guess = [start] * chain.points
        limit = self.max_iterations or chain.exact_after
        tolerance = 100 * torch.finfo(start[0].dtype).eps if self.tolerance is None else self.tolerance
        with _no_randomness():
            solution, residuals = _Multigrid(chain, apply).solve(start, guess, tolerance, limit)
        if self.warm_start:
            remembered[direction] = solution
        setattr(self, f"{direction}_residuals", residuals)
        if self.warns and not residuals[-1] <= tolerance:
            warnings.warn(_why(self, direction, residuals, tolerance), LayerParallelWarning, stacklevel=3)
        return solution


class SimultaneousLayerParallel(LayerParallel):
    """One V-cycle forwards and one backwards per optimisation step, each from where the last step left it.

    States, adjoints and parameters converge together (simultaneous optimisation, section 4 of Günther et al. 2020).
    Value and gradient are not those of the steps before they have converged, and the next training step must be given
    the same batch. States of other shapes start anew. After training, use another strategy to evaluate.

    Args:
        iterations: V-cycles per direction and optimisation step.
        coarsening, levels, group: see :class:`LayerParallel`.
    """

    name = "simultaneous_layer_parallel"
    exact = False
    warm_start = True
    warns = False

    def __init__(
        self, coarsening: int = 4, levels: int = 2, iterations: int = 1, group: dist.ProcessGroup | None = None
    ) -> None:
        super().__init__(coarsening, levels, None, iterations, group)
        self.iterations = iterations

    def _settings(self) -> tuple[str, ...]:
        return "coarsening", "levels", "iterations", "group"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {"tolerance": None, "max_iterations": state["iterations"]})


def _why(strategy: LayerParallel, direction: str, residuals: list[float], tolerance: float) -> str:
    grew = not residuals[-1] <= residuals[0]
    advice = (
        "The coarse step is unstable: use a smaller coarsening or step_size, or more steps."
        if grew or strategy.max_iterations is None
        else "Raise max_iterations, or leave it out to iterate until the result is exact."
    )
    return (
        f"{strategy}: the {direction} solve {'diverged' if grew else 'has not converged'}; its relative residual is "
        f"{residuals[-1]:.1e} after {len(residuals)} cycles, asked for {tolerance:.1e}. {advice}"
    )


class _Long(NamedTuple):
    """A step of some level: from fine step ``first`` over ``stride`` fine steps."""

    first: int
    stride: int


@dataclass(frozen=True)
class _Chain:
    """The steps of this process on all levels, and its neighbours.

    Attributes:
        steps: of each level, in the order of the solve; the steps of a group make up one step of the next level.
        groups: of each level but the coarsest, the number of steps in each group.
        upstream, downstream: global ranks of the neighbours, None at the ends.
        group: the processes, None for this one alone.
        active: number of processes that own steps.
        exact_after: cycles after which every solve is exact: each makes two more intervals so.
    """

    steps: list[list[_Long]]
    groups: list[list[int]]
    upstream: int | None
    downstream: int | None
    group: dist.ProcessGroup | None
    active: int
    exact_after: int

    @property
    def points(self) -> int:
        return len(self.steps[0]) + 1

    def reversed(self) -> _Chain:
        """For the adjoint, which runs from the last step to the first."""
        steps, groups = [s[::-1] for s in self.steps], [g[::-1] for g in self.groups]
        return _Chain(steps, groups, self.downstream, self.upstream, self.group, self.active, self.exact_after)

    def send(self, u: Parts) -> list[tuple[dist.Work | None, Tensor]]:
        """Messages under way; a message must stay alive until it has been waited for."""
        if self.downstream is None:
            return []
        return [(dist.isend(p, self.downstream, group=self.group), p) for p in map(Tensor.contiguous, u)]

    def receive(self, like: Parts) -> Parts:
        if self.upstream is None:
            return like
        found = tuple(torch.empty_like(p, memory_format=torch.contiguous_format) for p in like)
        for p in found:
            dist.recv(p, self.upstream, group=self.group)
        return found

    def shift(self, last: Parts, first: Parts) -> Parts:
        """Hand the state at the end of this block on; the state at its beginning is returned."""
        sent = self.send(last)
        received = self.receive(first)
        _wait(sent)
        return received

    def norm(self, squares: Sequence[Tensor]) -> float:
        """Root of the sum over all processes: the same number on each, so that they end together."""
        summed = torch.stack(list(squares)).sum()
        if self.group is not None:
            dist.all_reduce(summed, group=self.group)
        return math.sqrt(summed.item())

    def owner_of_end(self) -> int:
        """Global rank of the last process that owns steps."""
        assert self.group is not None
        return dist.get_global_rank(self.group, self.active - 1)


def _chain(steps: int, strategy: LayerParallel) -> _Chain:
    """The levels of this process; groups never straddle two processes."""
    group, c, levels = strategy.group, strategy.coarsening, strategy.levels
    rank, size = (0, 1) if group is None else (dist.get_rank(group), dist.get_world_size(group))
    while levels > 2 and -(-steps // c ** (levels - 1)) < size:
        levels -= 1
    stride = c ** (levels - 1)
    blocks = -(-steps // stride)
    active = min(size, blocks)
    here = range(0)
    if rank < active:
        here = range(rank * blocks // active * stride, min((rank + 1) * blocks // active * stride, steps))
    made: list[list[_Long]] = [[_Long(j, 1) for j in here]]
    groups: list[list[int]] = []
    for _ in range(levels - 1):
        cut = [made[-1][k : k + c] for k in range(0, len(made[-1]), c)]
        groups.append([len(g) for g in cut])
        made.append([_Long(g[0].first, sum(s.stride for s in g)) for g in cut])
    named = (lambda r: None) if group is None else (lambda r: dist.get_global_rank(group, r))
    before = named(rank - 1) if 0 < rank < active else None
    after = named(rank + 1) if rank < active - 1 else None
    return _Chain(made, groups, before, after, group, active, -(-steps // c) // 2 + 1)


class _Multigrid:
    """V-cycles for :math:`u_{k+1} - \\Phi_k(u_k) = g_k` on the steps of a chain."""

    def __init__(self, chain: _Chain, apply: Apply) -> None:
        self.chain = chain
        self.apply = apply

    def solve(
        self, start: Parts, guess: Sequence[Parts], tolerance: float, limit: int
    ) -> tuple[list[Parts], list[float]]:
        """The states at all points and the relative residual of each cycle."""
        u = list(guess)
        u[0] = start if self.chain.upstream is None else u[0]
        g: list[Parts | None] = [None] * len(self.chain.steps[0])
        scale = max(self.chain.norm([_square(start)]), torch.finfo(start[0].dtype).tiny)
        residuals: list[float] = []
        self._relax_fine(0, u, g)
        while len(residuals) < limit:
            residuals.append(self._cycle(0, u, g) / scale)
            if residuals[-1] <= tolerance or not math.isfinite(residuals[-1]):
                break
        return u, residuals

    def _cycle(self, level: int, u: list[Parts], g: Sequence[Parts | None]) -> float:
        """Improve ``u``, whose fine points are consistent.

        Returns:
            on the finest level, the norm of the residual before the coarse correction.
        """
        self._relax_coarse(level, u, g)
        self._relax_fine(level, u, g)
        places = self._coarse_points(level)
        v, tau, squares = [u[k] for k in places], [], [torch.zeros_like(_square(u[0]))]
        for m, end in enumerate(places[1:]):
            arrived = self._advance(level, end - 1, u, g)
            squares.append(_square(_minus(arrived, u[end])))
            tau.append(_minus(arrived, self.apply(level + 1, m, v[m])))
        residual = self.chain.norm(squares) if level == 0 else math.nan
        if level + 1 == len(self.chain.groups):
            self._sweep(level + 1, v, tau)
        else:
            self._relax_fine(level + 1, v, tau)
            self._cycle(level + 1, v, tau)
        for k, value in zip(places, v, strict=True):
            u[k] = value
        self._relax_fine(level, u, g)
        return residual

    def _relax_fine(self, level: int, u: list[Parts], g: Sequence[Parts | None]) -> None:
        """F: from every coarse point up to the next."""
        places = self._coarse_points(level)
        for begin, end in itertools.pairwise(places):
            for k in range(begin, end - 1):
                u[k + 1] = self._advance(level, k, u, g)

    def _relax_coarse(self, level: int, u: list[Parts], g: Sequence[Parts | None]) -> None:
        """C: every coarse point from the fine point before it."""
        ends = self._coarse_points(level)[1:]
        for end, value in [(end, self._advance(level, end - 1, u, g)) for end in ends]:
            u[end] = value
        u[0] = self.chain.shift(u[-1], u[0])

    def _sweep(self, level: int, u: list[Parts], g: Sequence[Parts | None]) -> None:
        """The coarsest level, process after process."""
        u[0] = self.chain.receive(u[0])
        for k in range(len(u) - 1):
            u[k + 1] = self._advance(level, k, u, g)
        _wait(self.chain.send(u[-1]))

    def _advance(self, level: int, k: int, u: Sequence[Parts], g: Sequence[Parts | None]) -> Parts:
        made, forcing = self.apply(level, k, u[k]), g[k]
        return made if forcing is None else tuple(a + b for a, b in zip(made, forcing, strict=True))

    def _coarse_points(self, level: int) -> list[int]:
        places = [0]
        for count in self.chain.groups[level]:
            places.append(places[-1] + count)
        return places


class _Taped(NamedTuple):
    """A step with its graph."""

    before: Parts  # leaves
    after: Parts

    def pull_back(self, adjoint: Parts) -> Parts:
        found = torch.autograd.grad(self.after, self.before, adjoint, retain_graph=True, materialize_grads=True)
        return tuple(found)


@dataclass(frozen=True)
class _Problem:
    """What is solved: the steps of an evolution by a strategy."""

    strategy: LayerParallel
    evolution: StridedPropagator
    paired: bool  # whether states are tuples
    count: int  # tensors of a state

    def forward(self, start: Parts, *, taped: bool) -> tuple[Parts, _Chain, list[list[_Taped]]]:
        """The last state, and the steps of every level with their graphs."""
        chain = _chain(self.evolution.steps, self.strategy)

        def apply(level: int, k: int, u: Parts) -> Parts:
            first, stride = chain.steps[level][k]
            return parts(self.evolution.step(first, u if self.paired else u[0], stride))

        with untouched_statistics(self.evolution.modules()), torch.no_grad():
            states = self.strategy._solve("forward", self.evolution, chain, start, apply)
            tapes = [_record(chain, level, states, apply) for level in range(1, len(chain.steps)) if taped]
        with _shared_buffers(self.evolution, chain) as buffers, torch.no_grad():
            if taped:
                tapes.insert(0, _record(chain, 0, states, apply))
            elif buffers:
                for k in range(len(chain.steps[0])):
                    apply(0, k, states[k])
        return tuple(p.clone() for p in _from_end(chain, states[-1])), chain, tapes


class _Solve(torch.autograd.Function):
    """Forward and adjoint solve as one function of initial state and parameters."""

    @staticmethod
    def forward(ctx: Any, problem: _Problem, *tensors: Tensor) -> Parts:
        result, ctx.chain, ctx.tapes = problem.forward(tensors[: problem.count], taped=True)
        ctx.problem, ctx.weights = problem, tensors[problem.count :]
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *adjoint: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        chain: _Chain = ctx.chain

        def apply(level: int, k: int, adjoint: Parts) -> Parts:
            return ctx.tapes[level][len(chain.steps[level]) - 1 - k].pull_back(adjoint)

        adjoints = ctx.problem.strategy._solve("backward", ctx.problem.evolution, chain.reversed(), adjoint, apply)
        weights = _weight_gradients(ctx.tapes[0], adjoints[::-1], ctx.weights)
        return None, *_from_beginning(chain, adjoints[-1]), *_summed(weights, ctx.weights, chain.group)


def _record(chain: _Chain, level: int, states: Sequence[Parts], apply: Apply) -> list[_Taped]:
    """Every step of a level from the solved state at its beginning."""
    if not chain.steps[0]:
        return []
    origin, tape = chain.steps[0][0].first, []
    for k, (first, _) in enumerate(chain.steps[level]):
        with torch.enable_grad():
            before = tuple(p.detach().requires_grad_() for p in states[first - origin])
            tape.append(_Taped(before, apply(level, k, before)))
    return tape


def _weight_gradients(
    tape: Sequence[_Taped], adjoints: Sequence[Parts], weights: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """Of every parameter, over the layers of this process."""
    pairs = [
        pair for step, adjoint in zip(tape, adjoints[1:], strict=True) for pair in zip(step.after, adjoint, strict=True)
    ]
    if not pairs or not weights:
        return [None] * len(weights)
    ends, factors = zip(*pairs, strict=True)
    return torch.autograd.grad(ends, weights, factors, retain_graph=True, allow_unused=True)


def _summed(
    gradients: Sequence[Tensor | None], weights: Sequence[Tensor], group: dist.ProcessGroup | None
) -> list[Tensor | None]:
    """The sum over processes in one message, None where no process has a gradient."""
    if group is None or not weights:
        return list(gradients)
    flat = [(torch.zeros_like(w) if g is None else g).flatten() for g, w in zip(gradients, weights, strict=True)]
    there = torch.tensor([float(g is not None) for g in gradients], dtype=flat[0].dtype, device=flat[0].device)
    message = torch.cat([*flat, there])
    dist.all_reduce(message, group=group)
    *pieces, there = message.split([*(w.numel() for w in weights), len(weights)])
    return [
        p.view_as(w).to(w.dtype) if has else None for p, w, has in zip(pieces, weights, there.tolist(), strict=True)
    ]


def _from_end(chain: _Chain, last: Parts) -> Parts:
    return last if chain.group is None else _broadcast(last, chain.owner_of_end(), chain.group)


def _from_beginning(chain: _Chain, first: Parts) -> Parts:
    return first if chain.group is None else _broadcast(first, dist.get_global_rank(chain.group, 0), chain.group)


def _broadcast(u: Parts, source: int, group: dist.ProcessGroup) -> Parts:
    copies = tuple(p.detach().clone(memory_format=torch.contiguous_format) for p in u)
    for p in copies:
        dist.broadcast(p, source, group=group)
    return copies


@contextmanager
def _shared_buffers(evolution: Propagator, chain: _Chain) -> Iterator[bool]:
    """What the owner of a layer changes in its buffers, all processes get. Tells whether there are buffers."""
    kept = [(b.data, b.clone()) for b in itertools.chain(*(m.buffers(recurse=False) for m in evolution.modules()))]
    if kept and chain.group and not isinstance(getattr(evolution, "dynamics", None), nn.ModuleList):
        raise ConfigError(
            "dynamics that several processes share cannot keep running statistics in layer-parallel training; "
            "use norm='group', or a list of dynamics."
        )
    yield bool(kept)
    for b, before in kept if chain.group else []:
        change = b - before
        dist.all_reduce(change, group=chain.group)
        b.copy_(before + change)


@contextmanager
def _no_randomness() -> Iterator[None]:
    before = torch.get_rng_state()
    yield
    if not torch.equal(before, torch.get_rng_state()):
        raise ConfigError(
            "layer-parallel training visits a step several times and needs the same answer each time, but the dynamics "
            "draw random numbers. Take dropout out of the dynamics, or use another gradient strategy."
        )


def _minus(u: Parts, v: Parts) -> Parts:
    return tuple(a - b for a, b in zip(u, v, strict=True))


def _square(u: Parts) -> Tensor:
    return torch.stack([p.double().square().sum() for p in u]).sum()


def _wait(sent: Sequence[tuple[dist.Work | None, Tensor]]) -> None:
    for work, _ in sent:
        if work is not None:
            work.wait()


STRATEGIES.add(LayerParallel.name, LayerParallel)
