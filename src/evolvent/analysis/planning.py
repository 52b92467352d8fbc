"""Which gradient strategy to train with: what each would cost in memory and time, and the fastest that fits."""

from __future__ import annotations

import copy
import math
import re
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from evolvent._core.checks import check_whole, described, told
from evolvent._core.errors import ConfigError
from evolvent._core.formats import format_bytes
from evolvent._core.notebook import html_table
from evolvent.evolution import evolutions, set_gradient
from evolvent.gradients import Backprop, Checkpoint, GradientStrategy, Reversible, make_strategy

_PROBE = 4  # images in a dry run, of which a half, too; batch normalisation needs two
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class StrategyCost:
    """What a strategy would cost.

    Attributes:
        strategy: the strategy.
        memory: bytes of activations at their peak, for the whole batch.
        seconds: time of one forward and backward pass over the whole batch.
    """

    strategy: GradientStrategy
    memory: int
    seconds: float


@dataclass(frozen=True)
class GradientPlan:
    """The costs of all strategies that a model takes, fastest first, and the one that was picked.

    Attributes:
        batch_size: that the costs are for.
        memory: the bytes that may be used.
        costs: of all strategies.
        chosen: the fastest that fits.
    """

    batch_size: int
    memory: int
    costs: tuple[StrategyCost, ...]
    chosen: StrategyCost

    def apply(self, model: nn.Module) -> None:
        """Let all evolutions of ``model`` use the chosen strategy."""
        set_gradient(model, self.chosen.strategy)

    def __str__(self) -> str:
        least = min(cost.seconds for cost in self.costs)
        rows = [
            f"{'*' if cost is self.chosen else ' '} {cost.strategy.text:<22}{format_bytes(cost.memory):>12}"
            f"{cost.seconds * 1e3:>11.0f} ms{cost.seconds / least:>7.2f} x"
            for cost in self.costs
        ]
        head = f"  {'strategy':<22}{'activations':>12}{'time':>14}{'ratio':>9}"
        foot = (
            f"* fastest within {format_bytes(self.memory)}, for a batch of {self.batch_size}; estimated from a dry run"
        )
        return "\n".join([head, *rows, foot])

    def _repr_html_(self) -> str:
        named = [f"{c.strategy.text}{' (chosen)' if c is self.chosen else ''}" for c in self.costs]
        rows = [[name, format_bytes(c.memory), f"{c.seconds:.3f} s"] for name, c in zip(named, self.costs, strict=True)]
        caption = f"fastest within {format_bytes(self.memory)}, for a batch of {self.batch_size}"
        return html_table(["strategy", "activations", "time"], rows, caption)


def plan(
    model: nn.Module,
    input_shape: Sequence[int],
    memory: str | int = "2GiB",
    *,
    strategies: Sequence[GradientStrategy | str] | None = None,
    rounds: int = 5,
) -> GradientPlan:
    """Measure what each gradient strategy would cost and pick the fastest that fits.

    A dry run with a few images, on a copy of the model, is scaled to the batch. Memory is that of all tensors of a
    forward and backward pass at its peak; weights, their gradients, the optimiser and the workspace inside
    convolutions come on top.

    Args:
        model: a network with evolutions; neither it nor the random numbers are touched.
        input_shape: (B, C, H, W) of a training batch.
        memory: what activations may use: bytes, or a text such as ``"2GiB"`` or ``"500 MB"``.
        strategies: those to consider, or their texts such as ``"checkpoint:4"``; all exact ones that the model's
            methods take unless given.
        rounds: timed passes per strategy; the fastest counts.

    Raises:
        ConfigError: if none fits; says the least that is needed.

    >>> import evolvent as ev
    >>> model = ev.create_model("hamiltonian", channels=(8,), blocks=8, image_size=8)
    >>> ev.plan(model, (32, 3, 8, 8), memory="10GiB").chosen.memory < 2**30
    True
    """
    allowed = read_bytes(memory)
    batch, *shape = _batch_shape(input_shape)
    check_whole(rounds=rounds)
    given = None if strategies is None else _given(strategies)
    x = torch.randn(_PROBE, *shape, generator=torch.Generator().manual_seed(0)).to(_first_parameter(model))
    with torch.random.fork_rng(devices=[]):
        twin = copy.deepcopy(model).train()
        measured = _measure(twin, x, _candidates(twin) if given is None else given, rounds)
    costs = sorted((m.scaled(batch) for m in measured), key=lambda cost: cost.seconds)
    fitting = [cost for cost in costs if cost.memory <= allowed]
    if not fitting:
        least = min(costs, key=lambda cost: cost.memory)
        raise ConfigError(
            f"no gradient strategy fits {format_bytes(allowed)} for a batch of {batch}; the least is "
            f"{format_bytes(least.memory)}, by {least.strategy.text!r}. Allow more memory or take smaller batches."
        )
    return GradientPlan(batch, allowed, tuple(costs), fitting[0])


def _given(strategies: Sequence[GradientStrategy | str]) -> list[GradientStrategy]:
    """The strategies, of which some may be texts."""
    found = list(strategies) if isinstance(strategies, (list, tuple)) else []
    if not found:
        raise ConfigError(
            f"strategies is a list of at least one gradient strategy, such as ['checkpoint:4'], got "
            f"{told(strategies)}. Leave it out to consider all."
        )
    return [one if isinstance(one, GradientStrategy) else make_strategy(one) for one in found]


def _first_parameter(model: nn.Module) -> nn.Parameter:
    """What tells device and precision of a model."""
    for parameter in model.parameters():
        return parameter
    raise ConfigError("the model has no parameters, so there are no gradients to plan for.")


def _batch_shape(given: Any) -> list[int]:
    numbers = list(given) if isinstance(given, Sequence) else []
    if len(numbers) < 2 or not all(isinstance(n, int) and n >= 1 for n in numbers):
        raise ConfigError(f"input_shape is that of a batch, such as (32, 3, 32, 32), got {described(given)}.")
    return numbers


def read_bytes(text: str | int) -> int:
    """A number of bytes, from a text such as ``"2GiB"`` or ``"500 MB"``.

    >>> read_bytes("1.5KiB")
    1536
    """
    if isinstance(text, int) and text >= 0:
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
    if found is None or found[2].upper() not in _UNITS:
        raise ConfigError(f"memory is a number of bytes or a text such as '2GiB' or '500MB', got {text!r}.")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def _candidates(model: nn.Module) -> list[GradientStrategy]:
    """Exact strategies that every evolution of the model takes."""
    found = [evolution for _, evolution in evolutions(model)]
    if not found:
        raise ConfigError("the model has no evolutions, so there is no gradient strategy to choose.")
    offered = [Backprop(), Checkpoint("sqrt"), Checkpoint(stored=_few(found)), Reversible()]
    return [strategy for strategy in offered if all(_takes(strategy, evolution) for evolution in found)]


def _few(found: Sequence[nn.Module]) -> int:
    """So few stored states that two repetitions of most steps suffice for the longest evolution."""
    longest = max(getattr(evolution, "steps", 1) for evolution in found)
    return max(2, math.ceil(math.log2(longest + 1)))


def _takes(strategy: GradientStrategy, evolution: nn.Module) -> bool:
    try:
        strategy.check_method(evolution.integrator)  # pyright: ignore[reportArgumentType]
    except ConfigError:
        return False
    return True


def _measure(model: nn.Module, x: Tensor, strategies: Sequence[GradientStrategy], rounds: int) -> list[_Measured]:
    memories, times = [], [[] for _ in strategies]
    for strategy in strategies:
        set_gradient(model, strategy)
        _pass(model, x)
        memories.append((peak_bytes(model, x[: len(x) // 2]), peak_bytes(model, x)))
    for _ in range(rounds):  # interleaved, so that a busy moment does not fall on one strategy alone
        for strategy, seconds in zip(strategies, times, strict=True):
            set_gradient(model, strategy)
            begin = time.perf_counter()
            _pass(model, x)
            seconds.append(time.perf_counter() - begin)
    return [_Measured(*row) for row in zip(strategies, memories, map(min, times), strict=True)]


@dataclass(frozen=True)
class _Measured:
    """The dry run of a strategy: memory of half the images and of all, time of all."""

    strategy: GradientStrategy
    memories: tuple[int, int]
    seconds: float

    def scaled(self, batch: int) -> StrategyCost:
        """Memory is affine in the batch size, since gradients of parameters do not depend on it."""
        half, whole = self.memories
        per_image = (whole - half) / (_PROBE / 2)
        memory = max(whole + per_image * (batch - _PROBE), 0)
        return StrategyCost(self.strategy, round(memory), self.seconds * batch / _PROBE)


def peak_bytes(model: nn.Module, x: Tensor) -> int:
    """The most bytes of tensors alive at a time during a forward and backward pass, above what was there before."""
    with _Watch() as watch:
        _pass(model, x)
    return watch.peak


class _Watch(TorchDispatchMode):
    """Counts the bytes of tensors that are made inside, until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._alive: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {id(t.untyped_storage()) for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and id(tensor.untyped_storage()) not in given:
                self._count(tensor.untyped_storage())
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = id(storage), storage.nbytes()
        if key in self._alive:
            return

        def forget(_: Any) -> None:
            self.now -= size
            del self._alive[key]

        self._alive[key] = weakref.ref(storage, forget)
        self.now += size
        self.peak = max(self.peak, self.now)


def _pass(model: nn.Module, x: Tensor) -> None:
    model(x).square().mean().backward()
