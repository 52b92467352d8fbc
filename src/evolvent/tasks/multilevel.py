"""Multilevel training: few layers first, then twice as many, and again (Chang et al. 2017)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent.evolution import evolutions, refine_evolutions
from evolvent.networks import refine

_SECOND_MOMENTS = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum")  # of optimisers: they hold squared gradients


@dataclass(frozen=True)
class MultilevelSchedule:
    """When to refine: so many epochs on each level, the coarsest first.

    >>> plan = MultilevelSchedule((2, 2, 4))
    >>> plan.total, [plan.level(epoch) for epoch in range(8)]
    (8, [0, 0, 1, 1, 2, 2, 2, 2])
    >>> [epoch for epoch in range(8) if plan.refines(epoch)]
    [2, 4]
    """

    epochs: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.epochs or min(self.epochs) < 1:
            raise ConfigError(f"every level needs at least one epoch, got {self.epochs}.")

    @property
    def levels(self) -> int:
        return len(self.epochs)

    @property
    def total(self) -> int:
        """Epochs of all levels."""
        return sum(self.epochs)

    def level(self, epoch: int) -> int:
        """Refinements made before ``epoch``, which counts from 0; after the last level's epochs it stays."""
        ends = [sum(self.epochs[: k + 1]) for k in range(self.levels - 1)]
        return sum(epoch >= end for end in ends)

    def refines(self, epoch: int) -> bool:
        """Whether the network is refined before ``epoch``."""
        return epoch > 0 and self.level(epoch) > self.level(epoch - 1)


def carry_state(
    old: nn.Module,
    old_optimizer: torch.optim.Optimizer,
    new: nn.Module,
    new_optimizer: torch.optim.Optimizer,
    interpolation: Literal["constant", "linear"] = "constant",
    knots: Literal["kept", "doubled"] = "kept",
) -> None:
    """Give the optimiser of a refined network the momenta of the coarse one's.

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
    """How large the gradient of each new parameter is to be expected against that of the one it came from."""
    counts = {name: len(list(evolution.parameters())) for name, evolution in evolutions(old)}
    grown = [name for name, e in evolutions(new) if len(list(e.parameters())) > counts[name]]
    inside = tuple(f"{name}." if name else "" for name in grown)
    return {name: 0.5 if inside and name.startswith(inside) else 1.0 for name, _ in new.named_parameters()}


class MultilevelTraining(pl.Callback):
    """Refines the network of a task as a schedule says, at the beginning of an epoch.

    The task must have the network as ``model`` and make its optimiser in ``configure_optimizers``. Not for distributed
    data parallel training, which cannot take in new parameters.

    To resume, the network must have the checkpoint's depth before its weights are loaded. So build the task anew, call
    :meth:`catch_up` with the checkpoint, and hand the checkpoint's path to ``trainer.fit``.

    Args:
        schedule: when to refine.
        momentum: ``"interpolated"`` carries the optimiser's state over, see :func:`carry_state`; ``"reset"`` drops it.
        interpolation: of parameters, see :meth:`evolvent.Evolution.refine`.
    """

    def __init__(
        self,
        schedule: MultilevelSchedule,
        momentum: Literal["interpolated", "reset"] = "interpolated",
        interpolation: Literal["constant", "linear"] = "constant",
    ) -> None:
        self.schedule = schedule
        self.momentum = momentum
        self.interpolation: Literal["constant", "linear"] = interpolation
        self.level = 0

    def catch_up(self, task: pl.LightningModule, checkpoint: Mapping[str, Any]) -> None:
        """Refine a new task's network as often as it had been when ``checkpoint`` was written."""
        reached = checkpoint["callbacks"].get(self.state_key, {"level": 0})
        while self.level < reached["level"]:
            task.model = refine(task.model, self.interpolation)  # pyright: ignore[reportArgumentType]
            self.level += 1

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        while self.level < self.schedule.level(trainer.current_epoch):
            if trainer.world_size > 1:
                raise ConfigError("multilevel training adds parameters, which data parallel processes cannot take in.")
            self._refine(trainer, pl_module)
            self.level += 1

    def _refine(self, trainer: pl.Trainer, task: pl.LightningModule) -> None:
        old, old_optimizer = task.model, trainer.optimizers[0]
        assert isinstance(old, nn.Module)
        task.model = new = refine(old, self.interpolation)
        new_optimizer = task.configure_optimizers()
        assert isinstance(new_optimizer, torch.optim.Optimizer)
        if self.momentum == "interpolated":
            carry_state(old, old_optimizer, new, new_optimizer, self.interpolation)
        trainer.optimizers = [new_optimizer]

    def state_dict(self) -> dict[str, Any]:
        return {"level": self.level}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if self.level != state_dict["level"]:
            raise ConfigError(
                f"the checkpoint's network was refined {state_dict['level']} times, this one {self.level} times. Call "
                "MultilevelTraining.catch_up before trainer.fit."
            )
