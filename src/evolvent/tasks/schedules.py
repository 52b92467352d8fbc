"""Learning-rate schedules as a factor over training time, measured in epochs."""

from __future__ import annotations

import bisect
import math
from typing import Literal

from pydantic import Field

from evolvent._core.config import Config


class ScheduleConfig(Config):
    """How the learning rate changes; times are in epochs and may be fractions."""

    name: Literal["constant", "multistep", "exponential", "cosine"] = "constant"
    milestones: tuple[float, ...] = ()
    gamma: float = Field(default=0.1, gt=0, allow_inf_nan=False, description="factor of multistep and exponential")
    after: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="time from which exponential multiplies the rate every epoch",
    )
    warmup: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    floor: float = Field(default=0.0, ge=0, le=1, description="where cosine ends, as a factor of the first rate")


def learning_rate_factor(config: ScheduleConfig, time: float, total: float) -> float:
    """Factor of the learning rate at ``time`` of ``total`` epochs, after a linear warm-up.

    >>> learning_rate_factor(ScheduleConfig(name="multistep", milestones=[2, 4]), 3.0, 6)
    0.1
    >>> falling = ScheduleConfig(name="exponential", gamma=0.5, after=5)
    >>> [learning_rate_factor(falling, time, 30) for time in (4.9, 5.0, 6.2)]
    [1.0, 0.5, 0.25]
    >>> learning_rate_factor(ScheduleConfig(name="cosine", warmup=1), 0.5, 10)
    0.5
    """
    if time < config.warmup:
        return time / config.warmup
    if config.name == "multistep":
        return _power(config.gamma, bisect.bisect_right(sorted(config.milestones), time))
    if config.name == "exponential":
        return _power(config.gamma, max(0, 1 + math.floor(time - config.after)))
    if config.name == "cosine":
        progress = min(1.0, (time - config.warmup) / max(total - config.warmup, 1e-9))
        return config.floor + (1 - config.floor) * 0.5 * (1 + math.cos(math.pi * progress))
    return 1.0


def _power(gamma: float, times: int) -> float:
    try:
        return gamma**times
    except OverflowError:
        return math.inf
