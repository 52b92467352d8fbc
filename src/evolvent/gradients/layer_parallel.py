"""Parallel in the layers: multigrid reduction in time over all steps at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self, cast
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.state import State
from evolvent.gradients._contract import STRATEGIES, GradientStrategy, Propagator, whole_number
from evolvent.gradients.layer_distribution import Ranks, distribute
from evolvent.gradients.layer_solve import StridedPropagator, solve_layers
from evolvent.gradients.mgrit import Apply, Levels, Multigrid, Parts, cycles_until_exact


class LayerParallelWarning(UserWarning):
    """The iteration over layers ended before its tolerance was met, so value or gradient is not that of the steps."""


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
        check_whole(2, coarsening=coarsening, levels=levels)
        if max_iterations is not None:
            check_whole(max_iterations=max_iterations)
        self.coarsening = coarsening
        self.levels = levels
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.group = group
        self.forward_residuals: list[float] = []
        self.backward_residuals: list[float] = []
        self._memory: WeakKeyDictionary[Any, dict[str, list[Parts]]] = WeakKeyDictionary()

    def propagate(self, evolution: Propagator, u: State) -> State:
        levels, ranks = distribute(evolution.steps, self.coarsening, self.levels, self.group)
        return solve_layers(cast(StridedPropagator, evolution), u, levels, ranks, partial(self._solve, evolution))

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

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:  # a process group cannot be copied
        return type(self)(*self._arguments())

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), self._arguments()

    def _arguments(self) -> tuple[Any, ...]:
        return self.coarsening, self.levels, self.tolerance, self.max_iterations, self.group

    def _solve(
        self, evolution: Propagator, direction: str, levels: Levels, ranks: Ranks, start: Parts, apply: Apply
    ) -> list[Parts]:
        """The states at all local points, from the first state on."""
        remembered = self._memory.setdefault(evolution, {}) if self.warm_start else {}
        guess = remembered.get(direction)
        if guess is None or [p.shape for p in guess[0]] != [p.shape for p in start] or len(guess) != levels.points:
            guess = [start] * levels.points
        limit = self.max_iterations or cycles_until_exact(evolution.steps, self.coarsening)
        tolerance = 100 * torch.finfo(start[0].dtype).eps if self.tolerance is None else self.tolerance
        with _no_randomness():
            solution, residuals = Multigrid(levels, ranks, apply).solve(start, guess, tolerance, limit)
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
    the same batch. States of other shapes start from scratch. After training, use another strategy to evaluate.

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

    def _arguments(self) -> tuple[Any, ...]:
        return self.coarsening, self.levels, self.iterations, self.group


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


@contextmanager
def _no_randomness() -> Iterator[None]:
    before = torch.get_rng_state()
    yield
    if not torch.equal(before, torch.get_rng_state()):
        raise ConfigError(
            "layer-parallel training visits a step several times and needs the same answer each time, but the dynamics "
            "draw random numbers. Take dropout out of the dynamics, or use another gradient strategy."
        )


STRATEGIES.add(LayerParallel.name, LayerParallel)
