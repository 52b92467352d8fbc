"""Optimisers by name: SGD and Adam with decay on weights only, and L-BFGS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from pydantic import Field
from torch import nn

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError, shortened

LARGEST_RATE = 1e30  # beyond it a step of single precision overflows


class OptimizerConfig(Config):
    r"""Which optimiser, and the decay :math:`\tfrac{\alpha_1}{2}\|K\|_F^2` of weights (Bohn et al. 2021, eq. 4.7).

    Decay acts on tensors with two or more axes (matrices and convolution kernels), not on biases and normalisations,
    unless it is told to act on all.
    """

    name: Literal["sgd", "adam", "lbfgs"] = "sgd"
    lr: float = Field(default=0.1, gt=0, le=LARGEST_RATE)
    momentum: float = Field(default=0.9, ge=0, lt=1, description="of SGD")
    nesterov: bool = Field(default=False, description="of SGD")
    betas: tuple[float, float] = Field(default=(0.9, 0.999), description="of Adam")
    weight_decay: float = Field(default=0.0, ge=0, le=LARGEST_RATE, description="of SGD and Adam")
    decayed: Literal["weights", "all"] = Field(
        default="weights", description="what decays: tensors with two or more axes, or all parameters"
    )
    iterations: int = Field(default=20, ge=1, description="of L-BFGS in each step")
    history: int = Field(default=20, ge=1, description="pairs of vectors that L-BFGS keeps")


def make_optimizer(parameters: Iterable[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimiser over the given parameters, those of them that are trained.

    Raises:
        ConfigError: if its options do not go together.
    """
    try:
        return _made([p for p in parameters if p.requires_grad], config)
    except ValueError as error:
        raise ConfigError(f"optimizer: {shortened(str(error), 150).rstrip('.')}. Change its settings.") from None


def _made(trained: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    if config.name == "lbfgs":
        return torch.optim.LBFGS(
            trained,
            lr=config.lr,
            max_iter=config.iterations,
            history_size=config.history,
            line_search_fn="strong_wolfe",
        )
    groups = _decay_groups(trained, config)
    if config.name == "adam":
        fused = not torch.cuda.is_available()  # one pass over weights and moments instead of many
        return torch.optim.Adam(groups, lr=config.lr, betas=config.betas, fused=fused)
    return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov)


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step of the optimiser evaluates the objective itself, perhaps several times."""
    return isinstance(optimizer, torch.optim.LBFGS) or getattr(optimizer, "needs_closure", False)


def _decay_groups(parameters: list[nn.Parameter], config: OptimizerConfig) -> list[dict[str, Any]]:
    least = 2 if config.decayed == "weights" else 0  # axes
    weights = [p for p in parameters if p.ndim >= least]
    others = [p for p in parameters if p.ndim < least]
    groups = [{"params": weights, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
