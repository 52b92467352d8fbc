"""How large a network would be, estimated before it is built: a misprint must not take the machine's memory.

Each large number among the options is varied alone, at small values, and the growth of parameters and layers that is
measured there is continued to the value that was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import nn

from evolvent._core.errors import ConfigError
from evolvent._core.memory import physical_memory
from evolvent.networks._options import NetworkOptions

_SMALL = 64  # numbers up to this are not looked at
_SUSPECT = 2e5  # product of the others, from which on the network is measured
_LAYERS = 2_000_000  # modules that a network may have


def check_size(build: Callable[[Any], nn.Module], options: NetworkOptions, name: str) -> None:
    """Refuse options whose network would not fit into memory, before it is built.

    Raises:
        ConfigError: names the option, what it would take and what there is.
    """
    large = {path: value for path, value in _numbers(options).items() if value > _SMALL}
    if math.prod(large.values()) < _SUSPECT:
        return
    with torch.random.fork_rng(devices=[]):
        parameters, layers = _estimate(build, options, large)
    memory = physical_memory()
    (option, _), value = max(large.items(), key=lambda entry: entry[1])
    if 4 * parameters > memory:
        why = f"about {4 * parameters:.1e} bytes for its parameters; this machine has {memory:.1e}"
    elif layers > _LAYERS:
        why = f"about {layers:.1e} layers; the limit is {_LAYERS:.1e}"
    else:
        return
    raise ConfigError(f"{name}: {option} of {value:,} would take {why}. Choose a smaller one.")


def _estimate(build: Callable[[Any], nn.Module], options: NetworkOptions, large: dict[Any, int]) -> tuple[float, float]:
    """Parameters and modules of the whole network."""
    base = _with(options, dict.fromkeys(large, _SMALL))
    try:
        least = _measured(build(base))
        found = [float(number) for number in least]
        for path, value in large.items():
            more = _measured(build(_with(base, {path: 2 * _SMALL})))
            for k in range(2):
                found[k] *= _growth(more[k] / least[k], value / _SMALL)
        return found[0], found[1]
    except Exception:  # small values may not suit the other options; then the largest number alone must do
        return 0.0, float(max(large.values())) if max(large.values()) > 1e8 else 0.0


def _growth(doubled: float, times: float) -> float:
    """How a size grows with a number that is so many times as large, given how it grows with twice the number.

    As a power, or as a straight line where that is more: one layer of many may be all that grows.
    """
    power = math.exp(min(600.0, math.log2(doubled) * math.log(times)))
    return max(power, 1 + (doubled - 1) * (times - 1))


def _measured(model: nn.Module) -> tuple[int, int]:
    return max(1, sum(p.numel() for p in model.parameters())), sum(1 for _ in model.modules())


def _numbers(options: NetworkOptions) -> dict[tuple[str, int | None], int]:
    """Whole numbers by the name of their option, and their place in it."""
    found: dict[tuple[str, int | None], int] = {}
    for option in fields(options):
        value = getattr(options, option.name)
        for place, one in enumerate(value) if isinstance(value, tuple) else [(None, value)]:
            if isinstance(one, int) and not isinstance(one, bool):
                found[option.name, place] = one
    return found


def _with(options: NetworkOptions, changes: dict[tuple[str, int | None], int]) -> NetworkOptions:
    values: dict[str, Any] = {}
    for (name, place), number in changes.items():
        if place is None:
            values[name] = number
        else:
            entries = list(values.get(name, getattr(options, name)))
            entries[place] = number
            values[name] = tuple(entries)
    return replace(options, **values)
