"""How long a training lasts: epochs, steps, or a budget of wall-clock time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from evolvent.experiments.recipe import TrainingConfig
from evolvent.tasks import Plan


@dataclass(frozen=True)
class Length:
    """The length of a training whose epochs have ``epoch_steps`` steps.

    >>> length = Length.of(TrainingConfig(steps=25), batches=10)
    >>> length.epoch_steps, length.steps, length.epochs, length.epoch_end(20)
    (10, 25, 3, 25)
    """

    epoch_steps: int
    steps: int | None  # None where the budget decides
    budget: float | None  # seconds

    @classmethod
    def of(cls, training: TrainingConfig, batches: int) -> Length:
        """The length that a recipe asks for, where one pass over the data has so many batches."""
        epoch_steps = training.epoch_steps or batches
        steps = training.epochs * epoch_steps if training.epochs else training.steps
        return cls(epoch_steps, steps, training.budget)

    @property
    def plan(self) -> Plan:
        return Plan(self.epoch_steps, self.steps)

    @property
    def epochs(self) -> int | None:
        return None if self.steps is None else -(-self.steps // self.epoch_steps)

    def epoch_end(self, step: int) -> int:
        """The step at which the epoch of ``step`` ends."""
        end = (step // self.epoch_steps + 1) * self.epoch_steps
        return end if self.steps is None else min(end, self.steps)

    def share_done(self, step: int, seconds: float) -> float:
        """Share of the training that is done after so many steps and seconds."""
        return step / self.steps if self.steps is not None else min(1.0, seconds / (self.budget or 1.0))


class Clock:
    """Wall-clock time that a training has used, in this process and before, and what its end will still cost."""

    def __init__(self, used: float = 0.0) -> None:
        self._before = used
        self._began = time.perf_counter()
        self.evaluation = 0.0  # seconds of the last evaluation after an epoch

    @property
    def used(self) -> float:
        return self._before + time.perf_counter() - self._began
