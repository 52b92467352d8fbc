"""Optimisers by name: SGD and Adam with decay on weights only, L-BFGS, and methods with a dense inverse Hessian."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from pydantic import Field
from torch import nn

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError, shortened
from evolvent.tasks.quasi_newton import QuasiNewton

_ITERATIONS = 20  # of quasi-Newton methods in each step
LARGEST_RATE = 1e30  # beyond it a step of single precision overflows


class OptimizerConfig(Config):
    r"""Which optimiser, and the decay :math:`\tfrac{\alpha_1}{2}\|K\|_F^2` of weights (Bohn et al. 2021, eq. 4.7).

    Decay acts on tensors with two or more axes (matrices and convolution kernels), not on biases and normalisations,
    unless it is told to act on all.
    """

    name: Literal["sgd", "adam", "lbfgs", "bfgs", "ssbfgs", "ssbroyden"] = Field(
        default="sgd", description="ssbfgs and ssbroyden are self-scaled, with a dense inverse Hessian like bfgs"
    )
    lr: float = Field(
        default=0.1,
        gt=0,
        le=LARGEST_RATE,
        description="of SGD, Adam and L-BFGS; the others search along a line from 1",
    )
    momentum: float = Field(default=0.9, ge=0, lt=1, description="of SGD")
    nesterov: bool = Field(default=False, description="of SGD")
    betas: tuple[float, float] = Field(default=(0.9, 0.999), description="of Adam")
    weight_decay: float = Field(default=0.0, ge=0, le=LARGEST_RATE, description="of SGD and Adam")
    decayed: Literal["weights", "all"] = Field(
        default="weights", description="what decays: tensors with two or more axes, or all parameters"
    )
    iterations: int | None = Field(
        default=None, ge=1, description="in each step, on one batch; 20 of L-BFGS and BFGS methods, else 1 if null"
    )
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
        return LimitedMemory(trained, config.lr, config.iterations or _ITERATIONS, config.history)
    if config.name in ("bfgs", "ssbfgs", "ssbroyden"):
        return QuasiNewton(trained, config.name, config.iterations or _ITERATIONS)
    groups = _decay_groups(trained, config)
    if config.name == "adam":
        fused = not torch.cuda.is_available()  # one pass over weights and moments instead of many
        made = torch.optim.Adam(groups, lr=config.lr, betas=config.betas, fused=fused)
    else:
        made = torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov)
    return made if (config.iterations or 1) == 1 else Repeated(made, config.iterations or 1)


class Repeated(torch.optim.Optimizer):
    """Several iterations of a first-order method on one batch, as one step, like those of quasi-Newton methods.

    Args:
        inner: the method.
        iterations: of each step.
    """

    needs_closure = True

    def __init__(self, inner: torch.optim.Optimizer, iterations: int) -> None:
        super().__init__(inner.param_groups, inner.defaults)
        self.inner, self.iterations = inner, iterations
        self._share()

    def step(self, closure: Callable[[], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        first = None
        for _ in range(self.iterations):
            loss = closure()
            first = loss if first is None else first
            self.inner.step()
        return first

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        """Groups and state are the inner method's; this object gives them to whoever reads or restores them."""
        self.inner.param_groups, self.inner.state = self.param_groups, self.state


class LimitedMemory(torch.optim.LBFGS):
    """PyTorch's L-BFGS, which goes on until rounding ends it; :attr:`stopped` says so after a step.

    PyTorch's own tolerances suit float32. In float64 they would end trainings of small losses early, without a word.
    """

    def __init__(self, parameters: list[nn.Parameter], lr: float, iterations: int, history: int) -> None:
        super().__init__(
            parameters,
            lr=lr,
            max_iter=iterations,
            history_size=history,
            line_search_fn="strong_wolfe",
        )
        self.stopped = ""

    def step(self, closure: Callable[[], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        group, before = self.param_groups[0], self._counts()
        if self._params[0].dtype == torch.float64:  # which may be decided after this object was made
            group["tolerance_grad"], group["tolerance_change"] = 1e-14, 1e-20
        loss = super().step(closure)
        iterations, evaluations = (now - then for now, then in zip(self._counts(), before, strict=True))
        ended = iterations < group["max_iter"] and evaluations < group["max_eval"]
        dtype = str(self._params[0].dtype)[6:]
        self.stopped = f"no step changes the objective by more than {dtype} rounds it" if ended else ""
        return loss

    def _counts(self) -> tuple[int, int]:
        state = self.state[self._params[0]]
        return state.get("n_iter", 0), state.get("func_evals", 0)


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step of the optimiser evaluates the objective itself, perhaps several times."""
    return isinstance(optimizer, torch.optim.LBFGS) or getattr(optimizer, "needs_closure", False)


def _decay_groups(parameters: list[nn.Parameter], config: OptimizerConfig) -> list[dict[str, Any]]:
    least = 2 if config.decayed == "weights" else 0  # axes
    weights = [p for p in parameters if p.ndim >= least]
    others = [p for p in parameters if p.ndim < least]
    groups = [{"params": weights, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
