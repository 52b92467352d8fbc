"""Whether a gradient strategy gives the value and the gradient of plain backpropagation."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from evolvent._core.state import State, parts
from evolvent.evolution import Evolution
from evolvent.gradients import Backprop, GradientStrategy
from evolvent.testing._claims import claim, distance, finite_gradient

_EXACT = 1e-10


def check_gradient(
    strategy: GradientStrategy, evolution: Evolution, u0: State, *, tolerance: float | None = None
) -> None:
    """Compare a strategy with :class:`~evolvent.gradients.Backprop` on the same evolution, in float64.

    The value must be the same; the gradients of the initial state and of every parameter too if the strategy is
    ``exact``; and buffers, such as running statistics, must end the same, however often a strategy computes a step.

    Args:
        strategy: what is checked.
        evolution: what it is checked on; a copy is used, in its present mode.
        u0: initial state.
        tolerance: largest relative distance of a gradient; 1e-10 for exact strategies, none for others.

    >>> from evolvent.dynamics import Hamiltonian
    >>> from evolvent.integrators import Verlet
    >>> flow = Evolution([Hamiltonian(1), Hamiltonian(1)], Verlet(), step_size=0.1)
    >>> check_gradient(Backprop(), flow, torch.ones(1, 2, 3, 3))
    """
    expected, found = _run(Backprop(), evolution, u0), _run(strategy, evolution, u0)
    off = distance(found.value, expected.value)
    claim(off <= _EXACT, f"{strategy} gives a value {off:.1e} from that of backpropagation, claimed the same.")
    allowed = _EXACT if tolerance is None and strategy.exact else tolerance
    for name, gradient in expected.gradients.items():
        _check_one(strategy, name, found.gradients[name], gradient, allowed)
    for name, buffer in expected.buffers.items():
        off = distance(found.buffers[name], buffer)
        claim(off <= _EXACT, f"{strategy} leaves the buffer {name!r} {off:.1e} from what backpropagation leaves.")


@dataclass(frozen=True)
class _Outcome:
    value: State
    gradients: dict[str, Tensor | None]
    buffers: dict[str, Tensor]


def _run(strategy: GradientStrategy, evolution: Evolution, u0: State) -> _Outcome:
    """Value, gradients of a random functional of it, and what is left in the buffers."""
    twin = copy.deepcopy(evolution).double()
    twin.gradient = strategy
    start = tuple(p.detach().double().clone().requires_grad_() for p in parts(u0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        value = twin(start if isinstance(u0, tuple) else start[0])
        draw = torch.Generator().manual_seed(1)
        weights = [torch.randn(p.shape, dtype=p.dtype, generator=draw) for p in parts(value)]
        sum((w * p).sum() for w, p in zip(weights, parts(value), strict=True)).backward()  # pyright: ignore[reportAttributeAccessIssue]
    gradients = {f"u0[{i}]": p.grad for i, p in enumerate(start)}
    gradients |= {name: p.grad for name, p in twin.named_parameters() if p.requires_grad}
    return _Outcome(value, gradients, dict(twin.named_buffers()))


def _check_one(
    strategy: GradientStrategy, name: str, found: Tensor | None, expected: Tensor | None, allowed: float | None
) -> None:
    if expected is None or found is None:
        claim(found is expected, f"{strategy} and backpropagation disagree whether {name!r} has a gradient.")
        return
    off = distance(finite_gradient(found, f"{name!r} under {strategy}"), expected)
    if allowed is not None and off > allowed:
        raise AssertionError(
            f"{strategy} gives {name!r} a gradient {off:.1e} from backpropagation's, claimed at most {allowed:g}."
        )
