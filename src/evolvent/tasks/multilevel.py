"""Multilevel training (Chang et al. 2017): what becomes of an optimiser's state when a network is refined."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from evolvent.evolution import evolutions, refine_evolutions

_SECOND_MOMENTS = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum")  # of optimisers: they hold squared gradients


def carry_state(
    old: nn.Module,
    old_optimizer: torch.optim.Optimizer,
    new: nn.Module,
    new_optimizer: torch.optim.Optimizer,
    interpolation: Literal["constant", "linear"] = "constant",
    knots: Literal["kept", "doubled"] = "kept",
) -> None:
    """Give the optimiser of a refined network the momenta of the coarse network's optimiser.

    Momenta are interpolated in time as the parameters are. Where a refinement has made more parameters, each stands for
    half the time, so its gradient is half as large: there momenta are halved, and second moments quartered.
    Counters, such as Adam's, go on. To reset instead, do not call this.

    Args:
        old, old_optimizer: the network before :func:`evolvent.networks.refine`, and its optimiser.
        new, new_optimizer: the refined network and a new optimiser of the same kind over its parameters.
        interpolation, knots: what the refinement was made with.
    """
    states = {name: old_optimizer.state.get(p, {}) for name, p in old.named_parameters()}
    shapes = {name: p.shape for name, p in old.named_parameters()}
    scales = _gradient_scales(old, new)
    for key in sorted({key for state in states.values() for key in state}):
        values = {name: state[key] for name, state in states.items() if state.get(key) is not None}
        if all(isinstance(v, Tensor) and v.shape == shapes[name] for name, v in values.items()) and key != "step":
            power = 2 if key in _SECOND_MOMENTS else 1
            moved = _prolonged(old, values, interpolation, knots)
            found = {name: moved[name] * scales[name] ** power for name in moved}
        else:
            last = list(values.values())[-1:]
            found = {name: copy.deepcopy(last[0]) for name in scales if last}
        for name, p in new.named_parameters():
            if name in found and p.requires_grad:
                new_optimizer.state[p][key] = found[name]


def _prolonged(
    model: nn.Module,
    values: Mapping[str, Tensor],
    interpolation: Literal["constant", "linear"],
    knots: Literal["kept", "doubled"],
) -> dict[str, Tensor]:
    """Values that belong to parameters, taken to the refined network as the parameters themselves are."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for name, p in twin.named_parameters():
            p.copy_(values.get(name, torch.zeros_like(p)))
    finer = refine_evolutions(twin, interpolation, knots)
    return {name: p.detach().clone() for name, p in finer.named_parameters()}


def _gradient_scales(old: nn.Module, new: nn.Module) -> dict[str, float]:
    """The expected size of each new parameter's gradient, relative to that of the parameter it came from."""
    counts = {name: len(list(evolution.parameters())) for name, evolution in evolutions(old)}
    grown = [name for name, e in evolutions(new) if len(list(e.parameters())) > counts[name]]
    inside = tuple(f"{name}." if name else "" for name in grown)
    return {name: 0.5 if inside and name.startswith(inside) else 1.0 for name, _ in new.named_parameters()}
