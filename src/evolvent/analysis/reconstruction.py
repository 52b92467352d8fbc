"""How accurately a reversible evolution reconstructs its states."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent._core.modes import evaluation_mode
from evolvent._core.state import State
from evolvent.analysis.states import StateLayout
from evolvent.evolution import Evolution
from evolvent.integrators import ReversibleIntegrator


@dataclass(frozen=True)
class Reconstruction:
    """Relative error of the reconstructed states, at all times."""

    dtype: str
    times: tuple[float, ...]
    errors: tuple[float, ...]


@torch.no_grad()
def measure_reconstruction(
    evolution: Evolution, u0: State, dtype: torch.dtype = torch.float64, *, batched: bool = True
) -> Reconstruction:
    r"""Run to the end, undo all steps, and compare: :math:`\|\hat u_j - u_j\| / \|u_j\|`, the largest over samples.

    Args:
        evolution: of a reversible method; a copy in evaluation mode and in ``dtype`` does the work.
        u0: initial states.
        dtype: precision of the run.
        batched: whether the first axis counts independent samples.

    Raises:
        ConfigError: the method cannot undo its steps.
    """
    method = evolution.integrator
    if not isinstance(method, ReversibleIntegrator):
        raise ConfigError(f"{method} cannot undo its steps. Use a reversible method such as Verlet().")
    twin = copy.deepcopy(evolution).to(dtype)
    with evaluation_mode(twin):
        states = [_started(twin, _cast(u0, dtype))]
        for j in range(twin.steps):
            states.append(twin.step(j, states[-1]))
        layout = StateLayout.of(states[0], batched)
        back, errors = states[-1], [0.0]
        for j in reversed(range(twin.steps)):
            back = method.unstep(twin.dynamics_at(j), j * twin.step_size, back, twin.step_size)
            errors.append(_distance(layout.rows(back), layout.rows(states[j])))
    times = tuple(j * twin.step_size for j in range(twin.steps + 1))
    return Reconstruction(str(dtype).removeprefix("torch."), times, tuple(reversed(errors)))


def _started(evolution: Evolution, u0: State) -> State:
    f = evolution.dynamics_at(0)
    return evolution.integrator.start(f, 0.0, f.enter(u0) if isinstance(u0, Tensor) else u0, evolution.step_size)


def _cast(u: State, dtype: torch.dtype) -> State:
    return tuple(part.to(dtype) for part in u) if isinstance(u, tuple) else u.to(dtype)


def _distance(rows: Tensor, exact: Tensor) -> float:
    tiny = torch.finfo(rows.dtype).tiny
    return ((rows - exact).norm(dim=1) / exact.norm(dim=1).clamp_min(tiny)).max().item()
