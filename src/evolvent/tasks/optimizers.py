"""Optimisers: SGD and Adam with decay on weights only."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import nn

from evolvent._core.config import Config


class OptimizerConfig(Config):
    r"""Which optimiser, and the decay :math:`\tfrac{\alpha_1}{2}\|K\|_F^2` of weights (Bohn et al. 2021, eq. 4.7).

    Decay acts on tensors with two or more axes (matrices and convolution kernels), never on biases or normalisations.
    """

    name: Literal["sgd", "adam"] = "sgd"
    lr: float = Field(default=0.1, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = Field(default=0.0, ge=0)


def make_optimizer(module: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimiser over all parameters of ``module`` that want a gradient."""
    groups = _decay_groups(module, config.weight_decay)
    if config.name == "adam":
        return torch.optim.Adam(groups, lr=config.lr, betas=config.betas)
    return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov)


def _decay_groups(module: nn.Module, weight_decay: float) -> list[dict]:
    parameters = [p for p in module.parameters() if p.requires_grad]
    weights = [p for p in parameters if p.ndim >= 2]
    others = [p for p in parameters if p.ndim < 2]
    groups = [{"params": weights, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
