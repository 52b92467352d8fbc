"""What an evolution does to the energy of its dynamics, or to the norm of its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from evolvent._core.modes import evaluation_mode
from evolvent._core.state import State, parts
from evolvent.analysis.states import StateLayout, check_evolution, full_trajectory
from evolvent.evolution import Evolution


@runtime_checkable
class HasEnergy(Protocol):
    """Dynamics with an energy per sample, a function of the parts of their state."""

    def energy(self, *state: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class EnergyDrift:
    """Change of the energy or of the norm since the start, relative to what it was."""

    kind: Literal["energy", "norm"]
    times: tuple[float, ...]
    values: tuple[float, ...]


@torch.no_grad()
def energy_drift(evolution: Evolution, u0: State, *, batched: bool = True) -> EnergyDrift:
    r"""Change of the energy along time, summed over samples and relative to the start.

    Where each step has an equation of its own, each step's change is that of its own energy,
    :math:`\sum_{i < j} H_i(u_{i+1}) - H_i(u_i)`: what the method adds, not what a change of the equation adds. Dynamics
    without an energy give the change of the norm, :math:`\|u(t)\| / \|u(0)\| - 1`.

    Args:
        evolution: measured in evaluation mode and left as it was.
        u0: initial states.
        batched: whether the first axis counts independent samples.
    """
    check_evolution(evolution, "energy_drift")
    with evaluation_mode(evolution):
        states = full_trajectory(evolution, u0)
        times = tuple(j * evolution.step_size for j in range(len(states)))
        equations = [evolution.dynamics_at(j) for j in range(evolution.steps)]
        energies = [f for f in equations if isinstance(f, HasEnergy)]
        if len(energies) == len(equations) > 0:
            return EnergyDrift("energy", times, _energy_changes(energies, states))
    return EnergyDrift("norm", times, _norm_changes(states, StateLayout.of(states[0], batched)))


def _energy_changes(equations: Sequence[HasEnergy], states: list[State]) -> tuple[float, ...]:
    scale = _size(equations[0].energy(*parts(states[0])))
    changes = [0.0]
    for f, before, after in zip(equations, states[:-1], states[1:], strict=True):
        gained = f.energy(*parts(after)).sum() - f.energy(*parts(before)).sum()
        changes.append(changes[-1] + gained.item() / scale)
    return tuple(changes)


def _norm_changes(states: list[State], layout: StateLayout) -> tuple[float, ...]:
    norms = [layout.rows(u).norm(dim=1) for u in states]
    return tuple(((norm - norms[0]).sum() / _size(norms[0])).item() for norm in norms)


def _size(values: Tensor) -> float:
    """The sum of absolute values, or one if that is nothing to divide by."""
    return values.abs().sum().item() or 1.0
