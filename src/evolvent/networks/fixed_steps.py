"""Networks whose steps depend on values, with a fixed number of steps instead."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from evolvent._core.checks import check_whole
from evolvent.evolution import Evolution, evolutions
from evolvent.integrators import RK4


def is_adaptive(network: nn.Module) -> bool:
    """Whether a network chooses the sizes of its steps by the values that it meets."""
    return any(evolution.integrator.adaptive for _, evolution in evolutions(network))


def with_fixed_steps(network: nn.Module, steps: int) -> nn.Module:
    r"""A copy of a network that solves by classical Runge-Kutta steps what it would solve adaptively.

    .. math:: u_{j+1} = u_j + \tfrac h6 (k_1 + 2 k_2 + 2 k_3 + k_4), \qquad h = T / steps

    Of ``odenet`` it makes an ``rknet`` with the same weights. Unlike the adaptive form it can be written as a file.

    Args:
        network: whose adaptive evolutions are replaced; all others stay.
        steps: in the place of each adaptive one.

    >>> import torch
    >>> import evolvent as ev
    >>> network, x = ev.create_model("odenet", width=8, groups=2).eval(), torch.randn(2, 1, 12, 12)
    >>> bool((with_fixed_steps(network, 8)(x) - network(x)).abs().max() < 1e-2)
    True
    """
    check_whole(1, steps=steps)
    twin = copy.deepcopy(network)
    if isinstance(twin, Evolution):
        return _fixed(twin, steps)
    for name, evolution in list(evolutions(twin)):
        if evolution.integrator.adaptive:
            parent, _, child = name.rpartition(".")
            setattr(twin.get_submodule(parent), child, _fixed(evolution, steps))
    return twin


def _fixed(evolution: Evolution, steps: int) -> Evolution:
    each: Any = evolution.dynamics
    dynamics: Any = [f for f in each for _ in range(steps)] if isinstance(each, nn.ModuleList) else each
    fixed = Evolution(dynamics, RK4(), steps * evolution.steps, evolution.step_size / steps)
    return fixed.train(evolution.training)
