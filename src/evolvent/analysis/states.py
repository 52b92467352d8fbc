"""The states that a model's evolutions start from and pass through, and states as rows of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evolvent._core.checks import described
from evolvent._core.errors import ConfigError
from evolvent._core.modes import evaluation_mode
from evolvent._core.state import State, parts
from evolvent.evolution import Evolution, evolutions


@dataclass(frozen=True)
class EvolutionInput:
    """One evolution of a model, and the state it starts from."""

    name: str  # where it is in the model; empty if it is the model
    evolution: Evolution
    u0: State


def evolution_inputs(model: nn.Module, example: State) -> list[EvolutionInput]:
    """The evolutions that ``model`` runs through for ``example``, in order; those without a step are left out.

    >>> import evolvent as ev
    >>> model = ev.create_model("hamiltonian", channels=(4, 8), blocks=2, image_size=8)
    >>> [(s.name, tuple(s.u0.shape)) for s in evolution_inputs(model, torch.zeros(1, 3, 8, 8))]
    [('body.0', (1, 4, 8, 8)), ('body.2', (1, 8, 4, 4))]
    """
    found: list[EvolutionInput] = []

    def watch(name: str, evolution: Evolution) -> Any:
        def hook(_: nn.Module, inputs: tuple[State, ...]) -> None:
            if evolution.steps:
                found.append(EvolutionInput(name, evolution, inputs[0]))

        return evolution.register_forward_pre_hook(hook)

    handles = [watch(name, evolution) for name, evolution in evolutions(model)]
    try:
        with evaluation_mode(model), torch.no_grad():
            model(example)
    finally:
        for handle in handles:
            handle.remove()
    return found


def check_evolution(given: object, taker: str) -> None:
    """Refuse what is not one evolution, such as a whole network."""
    if not isinstance(given, Evolution):
        raise ConfigError(
            f"{taker} takes one evolution and its initial state, got {described(given)}. measure_stability(network, x) "
            "looks at all evolutions of a network."
        )


def full_trajectory(evolution: Evolution, u0: State) -> list[State]:
    """The whole states at all times, velocities and momenta included, where features alone enter."""
    inside = evolution.dynamics_at(0).enter(u0) if isinstance(u0, Tensor) and evolution.steps else u0
    return evolution.trajectory(inside)


def spread(count: int, points: int) -> list[int]:
    """At most ``points`` of ``0 ... count - 1``, evenly, first and last included.

    >>> spread(7, 4), spread(2, 9)
    ([0, 2, 4, 6], [0, 1])
    """
    return sorted({round(k) for k in np.linspace(0, count - 1, min(count, points)).tolist()})


@dataclass(frozen=True)
class StateLayout:
    """How the states of one evolution lie in memory: one row per sample.

    The first axis counts independent samples where ``batched`` is set and every part has two axes or more. Otherwise
    the whole state is one sample, as it must be for the nodes of a graph, which act on each other.

    >>> layout = StateLayout.of((torch.zeros(2, 3, 4), torch.zeros(2, 5)))
    >>> layout.rows((torch.ones(2, 3, 4), torch.ones(2, 5))).shape
    torch.Size([2, 17])
    """

    shapes: tuple[torch.Size, ...]
    is_tuple: bool
    samples: int

    @classmethod
    def of(cls, u: State, batched: bool = True) -> StateLayout:
        """The layout of states like ``u``."""
        pieces = parts(u)
        counted = batched and all(part.ndim > 1 for part in pieces)
        return cls(tuple(p.shape for p in pieces), isinstance(u, tuple), len(pieces[0]) if counted else 1)

    def rows(self, u: State) -> Tensor:
        """(samples, numbers of one sample)."""
        return torch.cat([part.reshape(self.samples, -1) for part in parts(u)], dim=1)

    def state(self, rows: Tensor) -> State:
        """The state that lies in ``rows``; undoes :meth:`rows`."""
        sizes = [shape.numel() // self.samples for shape in self.shapes]
        pieces = zip(rows.split(sizes, dim=1), self.shapes, strict=True)
        u = tuple(piece.reshape(shape) for piece, shape in pieces)
        return u if self.is_tuple else u[0]


def first_sample(u: State) -> State:
    """The first sample of a batch of states, as a batch of one."""
    return tuple(part[:1] for part in u) if isinstance(u, tuple) else u[:1]
