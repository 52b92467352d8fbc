"""When an optimiser acts in a training, and on which parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn

from evolvent._core.errors import ConfigError
from evolvent.tasks.optimizers import OptimizerConfig
from evolvent.tasks.schedules import ScheduleConfig


@dataclass(frozen=True)
class Plan:
    """How long a training lasts: steps of an epoch, and of the whole training, None where time decides."""

    epoch_steps: int
    steps: int | None


@dataclass(frozen=True)
class Turn:
    """One optimiser's part in a training.

    Attributes:
        parameters: what it trains.
        optimizer: which optimiser, and its learning rate.
        schedule: of the learning rate, over the turn's own time.
        name: told to :meth:`~evolvent.tasks.task.Task.objective`, so that each turn may have an objective of its own.
        every: it acts on one batch of this many.
        since, until: the first step on which it may act, and the first on which it no longer does.
        during: (count, period), if it acts only in the first ``count`` steps of every ``period``, such as one epoch of
            five.
        objectives: names told to the task's objective in place of ``name``, if the optimiser makes a step for each of
            several objectives, in this order; parameters on which one does not depend stay as they are.

    >>> part = Turn([], OptimizerConfig(), every=2, during=(4, 10))
    >>> [step for step in range(20) if part.acts(step)]
    [0, 2, 10, 12]
    """

    parameters: Sequence[nn.Parameter]
    optimizer: OptimizerConfig
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    name: str = "network"
    every: int = 1
    since: int = 0
    until: int | None = None
    during: tuple[int, int] | None = None
    objectives: Sequence[str] = ()

    def acts(self, step: int) -> bool:
        inside = step >= self.since and (self.until is None or step < self.until)
        place, count = step - self.since, None
        if self.during is not None:
            count, period = self.during
            place %= period
        return inside and place % self.every == 0 and (count is None or place < count)


def check_turns(turns: Sequence[Turn]) -> None:
    """Refuse turns without parameters, and two that train one parameter at the same time."""
    for turn in turns:
        if not turn.parameters:
            raise ConfigError(f"turn {turn.name!r} has no parameters to train. Leave it out, or give it some.")
        if turn.every < 1 or turn.since < 0 or (turn.until is not None and turn.until <= turn.since):
            raise ConfigError(
                f"turn {turn.name!r} must act on every 1, 2, ... batches between since and a later until, got every "
                f"{turn.every}, since {turn.since}, until {turn.until}."
            )
        if turn.during is not None and not 1 <= turn.during[0] <= turn.during[1]:
            raise ConfigError(
                f"turn {turn.name!r} must act during some of a period's steps, at least 1 and at most all, got "
                f"{turn.during[0]} of {turn.during[1]}."
            )
    for k, one in enumerate(turns):
        owned = set(map(id, one.parameters))
        for other in turns[k + 1 :]:
            if _overlap(one, other) and owned & set(map(id, other.parameters)):
                raise ConfigError(
                    f"turns {one.name!r} and {other.name!r} train the same parameter at the same time. Divide the "
                    "parameters between them, or let one begin when the other ends (since, until)."
                )


def _overlap(one: Turn, other: Turn) -> bool:
    ends = [turn.until if turn.until is not None else float("inf") for turn in (one, other)]
    return max(one.since, other.since) < min(ends)
