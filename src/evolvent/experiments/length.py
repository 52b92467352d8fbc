"""How long a training lasts, in epochs, steps or wall-clock time, and how fast it goes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from evolvent.data import Batches
from evolvent.experiments.recipe import Cell, TrainingConfig
from evolvent.tasks import Plan, Task


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

    def epoch(self, step: int) -> int:
        """Number of the epoch, counted from 1, to which the step of number ``step``, counted from 1, belongs."""
        return (step - 1) // self.epoch_steps + 1

    def epoch_end(self, step: int) -> int:
        """The step at which the epoch ends to which the next step, after ``step`` steps, belongs."""
        end = (step // self.epoch_steps + 1) * self.epoch_steps
        return end if self.steps is None else min(end, self.steps)

    def expected_steps(self, step: int, seconds: float) -> float:
        """Steps of the whole training; under a budget of time estimated from the steps so far."""
        if self.steps is not None:
            return self.steps
        share = self.share_done(step, seconds)
        return step / share if share > 0 else math.inf

    def share_done(self, step: int, seconds: float) -> float:
        """Share of the training that is done after so many steps and seconds."""
        return step / self.steps if self.steps is not None else min(1.0, seconds / (self.budget or 1.0))


def training_length(cell: Cell, task: Task, batches: Batches) -> Length:
    """What the recipe asks for; a task without turns goes through its rows once, whatever that says."""
    length = Length.of(cell.training, max(1, len(batches)))
    return length if task.turns(length.plan) else Length(batches.pieces, batches.pieces, None)


class Pace:
    """Measures the time of a training: of its steps, of its evaluations, and all the time since it first began.

    Args:
        used: seconds that earlier processes spent on the training, all in all.
        trained: seconds that they spent on training steps.
    """

    def __init__(self, used: float = 0.0, trained: float = 0.0) -> None:
        self._used_before = used
        self._began = self._lap = time.perf_counter()
        self.trained = trained
        self.evaluation = 0.0  # seconds of the last evaluation after an epoch
        self._steps_here, self._seconds_here = 0, 0.0

    @property
    def used(self) -> float:
        """Wall-clock seconds since the training first began, without the time between processes."""
        return self._used_before + time.perf_counter() - self._began

    def start_lap(self) -> None:
        """Training steps begin, or go on after something else."""
        self._lap = time.perf_counter()

    def end_step(self) -> float:
        """A training step has ended; returns the time."""
        now = time.perf_counter()
        self.trained += now - self._lap
        self._seconds_here += now - self._lap
        self._steps_here += 1
        self._lap = now
        return now

    @property
    def step_seconds(self) -> float:
        """Mean time of the training steps of this process."""
        return self._seconds_here / self._steps_here if self._steps_here else math.nan
