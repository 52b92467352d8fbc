"""Optimisers by name: SGD, Adam, SOAP, L-BFGS, methods with a dense inverse Hessian and Gauss-Newton as papers use
them, and those of ``torch.optim`` with their own options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import nn

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError, close_matches, shortened
from evolvent.tasks.gauss_newton import GaussNewton
from evolvent.tasks.quasi_newton import QuasiNewton
from evolvent.tasks.soap import Soap

_ITERATIONS = 20  # of quasi-Newton methods in each step
LARGEST_RATE = 1e30  # beyond it a step of single precision overflows
_DENSE = ("bfgs", "ssbfgs", "ssbroyden")  # with a dense inverse Hessian; the last two are self-scaled
_WITHOUT_DECAY = ("lbfgs", *_DENSE, "gauss-newton")
_OURS = ("sgd", "adam", "soap", *_WITHOUT_DECAY)
_GIVEN_ELSEWHERE = ("params", "lr", "weight_decay")


class OptimizerConfig(Config):
    r"""Which optimiser, and the decay :math:`\tfrac{\alpha_1}{2}\|K\|_F^2` of weights (Bohn et al. 2021, eq. 4.7).

    Decay acts on tensors with two or more axes (matrices and convolution kernels), not on biases and normalisations,
    unless it is told to act on all. ``sgd``, ``adam`` and ``lbfgs`` take the keys here; any class of ``torch.optim``,
    such as ``AdamW``, takes its own arguments as ``options``.

    >>> OptimizerConfig(name="AdamW", lr=0.001, options={"amsgrad": True}).name
    'AdamW'
    """

    name: str = Field(
        default="sgd",
        description="sgd, adam, soap, lbfgs, bfgs, ssbfgs, ssbroyden, gauss-newton, or a class of torch.optim such as "
        "AdamW",
    )
    lr: float = Field(default=0.1, gt=0, le=LARGEST_RATE, description="dense methods search along a line from 1")
    momentum: float = Field(default=0.9, ge=0, lt=1, description="momentum of SGD")
    nesterov: bool = Field(default=False, description="Nesterov momentum of SGD")
    betas: tuple[float, float] = Field(
        default=(0.9, 0.999), description="decay of the moving averages of Adam and SOAP"
    )
    frequency: int = Field(default=10, ge=1, description="steps after which SOAP turns its basis")
    weight_decay: float = Field(default=0.0, ge=0, le=LARGEST_RATE, description="weight decay of SGD, Adam and SOAP")
    decayed: Literal["weights", "all"] = Field(
        default="weights", description="what decays: tensors with two or more axes, or all parameters"
    )
    iterations: int | None = Field(
        default=None,
        ge=1,
        description="iterations in each step, on one batch; if null 20 for L-BFGS and BFGS methods, else 1",
    )
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
            known = f"; there are {', '.join(_OURS)} and the classes of torch.optim"
            guess = f"; similar names are {' and '.join(map(repr, near))}" if near else known
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
    """The optimiser over the given parameters, those of them that are trained.

    Raises:
        ConfigError: if its options do not go together.
    """
    try:
        return _made([p for p in parameters if p.requires_grad], config)
    except ValueError as error:
        raise ConfigError(f"optimizer: {shortened(str(error), 230).rstrip('.')}. Change its settings.") from None


def _made(trained: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    if config.name in _WITHOUT_DECAY:
        _refuse_decay(config)
    if config.name == "lbfgs":
        return LimitedMemory(trained, config.lr, config.iterations or _ITERATIONS, config.history)
    if config.name in _DENSE:
        return QuasiNewton(trained, config.name, config.iterations or _ITERATIONS)
    if config.name == "gauss-newton":
        return GaussNewton(trained, config.iterations or 1)
    made = _first_order(trained, config) if config.name in _OURS else _torch_optimizer(trained, config)
    if (config.iterations or 1) == 1:
        return made
    if needs_closure(made):
        raise ConfigError(f"{config.name} repeats its own iterations; leave optimizer.iterations out and set options.")
    return Repeated(made, config.iterations or 1)


def _first_order(trained: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    groups = _decay_groups(trained, config)
    if config.name == "adam":
        fused = not torch.cuda.is_available()  # one pass over weights and moments instead of many
        return torch.optim.Adam(groups, lr=config.lr, betas=config.betas, fused=fused)
    if config.name == "soap":
        return Soap(groups, lr=config.lr, betas=config.betas, frequency=config.frequency)
    return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov)


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

    PyTorch's own tolerances suit float32. In float64 they would silently end trainings of small losses early.
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


def _torch_optimizer(trained: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    kind = torch_optimizers()[config.name]
    decays = "weight_decay" in inspect.signature(kind).parameters
    if not decays:
        _refuse_decay(config)
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in config.options.items()}
    try:
        return kind(_decay_groups(trained, config) if decays else trained, lr=config.lr, **options)  # pyright: ignore[reportCallIssue]
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{config.name} does not take these options: {shortened(str(error), 150)}.") from None


def _refuse_decay(config: OptimizerConfig) -> None:
    if config.weight_decay:
        raise ConfigError(f"{config.name} has no weight decay; leave optimizer.weight_decay out.")


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step of the optimiser evaluates the objective itself, perhaps several times."""
    return isinstance(optimizer, torch.optim.LBFGS) or getattr(optimizer, "needs_closure", False)


def _decay_groups(parameters: list[nn.Parameter], config: OptimizerConfig) -> list[dict[str, Any]]:
    least = 2 if config.decayed == "weights" else 0  # axes
    weights = [p for p in parameters if p.ndim >= least]
    others = [p for p in parameters if p.ndim < least]
    groups = [{"params": weights, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
