"""Optimisers by name: SGD, Adam and L-BFGS as papers use them, and those of ``torch.optim`` with their own options."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import nn

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError, close_matches, shortened

_OURS = ("sgd", "adam", "lbfgs")
_GIVEN_ELSEWHERE = ("params", "lr", "weight_decay")


class OptimizerConfig(Config):
    r"""Which optimiser, and the decay :math:`\tfrac{\alpha_1}{2}\|K\|_F^2` of weights (Bohn et al. 2021, eq. 4.7).

    Decay acts on tensors with two or more axes (matrices and convolution kernels), not on biases and normalisations,
    unless it is told to act on all. ``sgd``, ``adam`` and ``lbfgs`` take the keys here; any class of ``torch.optim``,
    such as ``AdamW``, takes its own arguments as ``options``.

    >>> OptimizerConfig(name="AdamW", lr=0.001, options={"amsgrad": True}).name
    'AdamW'
    """

    name: str = Field(default="sgd", description="sgd, adam, lbfgs, or a class of torch.optim such as AdamW")
    lr: float = Field(default=0.1, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1, description="of SGD")
    nesterov: bool = Field(default=False, description="of SGD")
    betas: tuple[float, float] = Field(default=(0.9, 0.999), description="of Adam")
    weight_decay: float = Field(default=0.0, ge=0, description="of SGD and Adam")
    decayed: Literal["weights", "all"] = Field(
        default="weights", description="what decays: tensors with two or more axes, or all parameters"
    )
    iterations: int = Field(default=20, ge=1, description="of L-BFGS in each step")
    history: int = Field(default=20, ge=1, description="pairs of vectors that L-BFGS keeps")
    options: dict[str, Any] = Field(default={}, description="further arguments of a class of torch.optim")

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.name in _OURS:
            if self.options:
                raise ValueError(f"options are for classes of torch.optim such as AdamW; {self.name} has its own keys")
            return self
        kinds = torch_optimizers()
        if self.name not in kinds:
            near = close_matches(self.name, [*_OURS, *kinds])
            guess = f"; near to it are {' and '.join(map(repr, near))}" if near else ""
            raise ValueError(f"unknown optimiser {shortened(repr(self.name))}{guess}")
        given = sorted(inspect.signature(kinds[self.name]).parameters.keys() - set(_GIVEN_ELSEWHERE))
        for option in self.options:
            if option not in given:
                raise ValueError(f"{self.name} has no option {option!r}; it has {', '.join(given)}")
        return self


def torch_optimizers() -> dict[str, type[torch.optim.Optimizer]]:
    """The classes of ``torch.optim`` by name, but for those that need sparse gradients."""
    found = inspect.getmembers(torch.optim, inspect.isclass)
    refused = (torch.optim.Optimizer, torch.optim.SparseAdam)
    return {name: kind for name, kind in found if issubclass(kind, torch.optim.Optimizer) and kind not in refused}


def make_optimizer(parameters: Iterable[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    """The optimiser over the given parameters, those of them that are trained."""
    trained = [p for p in parameters if p.requires_grad]
    if config.name == "lbfgs":
        return torch.optim.LBFGS(
            trained,
            lr=config.lr,
            max_iter=config.iterations,
            history_size=config.history,
            line_search_fn="strong_wolfe",
        )
    if config.name not in _OURS:
        return _torch_optimizer(trained, config)
    groups = _decay_groups(trained, config)
    if config.name == "adam":
        fused = not torch.cuda.is_available()  # one pass over weights and moments instead of many
        return torch.optim.Adam(groups, lr=config.lr, betas=config.betas, fused=fused)
    return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov)


def _torch_optimizer(trained: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    kind = torch_optimizers()[config.name]
    decays = "weight_decay" in inspect.signature(kind).parameters
    if config.weight_decay and not decays:
        raise ConfigError(f"{config.name} knows no weight decay; leave optimizer.weight_decay out.")
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in config.options.items()}
    try:
        return kind(_decay_groups(trained, config) if decays else trained, lr=config.lr, **options)  # pyright: ignore[reportCallIssue]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{config.name} does not take these options: {shortened(str(error), 150)}.") from None


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step of the optimiser evaluates the objective itself, perhaps several times."""
    return isinstance(optimizer, torch.optim.LBFGS) or getattr(optimizer, "needs_closure", False)


def _decay_groups(parameters: list[nn.Parameter], config: OptimizerConfig) -> list[dict[str, Any]]:
    least = 2 if config.decayed == "weights" else 0  # axes
    weights = [p for p in parameters if p.ndim >= least]
    others = [p for p in parameters if p.ndim < least]
    groups = [{"params": weights, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
