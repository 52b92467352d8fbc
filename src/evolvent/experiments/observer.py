"""What is reported while a grid runs: the command line draws, tests record, the default is silent."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from evolvent.experiments.recipe import Cell
from evolvent.experiments.record import Cost, Result


@dataclass(frozen=True)
class TrainingProgress:
    """Where a training stands."""

    step: int
    steps: int | None  # None where a budget of time decides
    epoch: int  # counted from 1
    epochs: int | None
    figures: dict[str, float]  # over the training batches of this epoch so far
    rows: str  # what a row is called, in the plural
    rows_per_second: float
    seconds_left: float
    share_done: float
    epoch_ends: bool
    watched: dict[str, float] = field(default_factory=dict)  # on the watched rows, after the last epoch


class Observer:
    """Does nothing; subclasses override what they want to know."""

    interval: float = 0.2
    """Least seconds between two messages of progress inside an epoch; 0 for one after every step."""

    def grid_starts(self, cells: list[Cell], origin: str) -> None:
        """Before the first training; ``origin`` says where the data came from."""

    def network_measured(self, cell: Cell, cost: Cost, advice: str) -> None:
        """Once for each variant, before it is first trained; ``advice`` is empty if there is none."""

    def cell_skipped(self, cell: Cell, folder: Path, result: Result) -> None:
        """The cell was finished by an earlier run."""

    def cell_branches(self, cell: Cell, text: str) -> None:
        """A training goes on from a checkpoint of another run, which the text names."""

    def cell_starts(self, cell: Cell, folder: Path, resumed: bool) -> None:
        """Before a training."""

    def cell_warns(self, cell: Cell, text: str) -> None:
        """Something about a training that the user should know; one line."""

    def cell_progresses(self, cell: Cell, progress: TrainingProgress) -> None:
        """During a training, after steps and at the end of each epoch."""

    def cell_ends(self, cell: Cell, folder: Path, result: Result) -> None:
        """After a training and its evaluation."""

    def cell_fails(self, cell: Cell, folder: Path, reason: str) -> None:
        """A training that ran beside others ended with an error."""

    def close(self) -> None:
        """After the last message, however the grid ended."""
