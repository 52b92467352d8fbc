"""Who looks on while a grid runs: the command line draws, tests record, the default is silent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evolvent.experiments.recipe import Cell
from evolvent.experiments.record import Cost, Result


@dataclass(frozen=True)
class Progress:
    """Where a training stands."""

    step: int
    steps: int
    epoch: int  # counted from 1
    epochs: int
    loss: float  # mean over this epoch so far
    accuracy: float
    images_per_second: float
    seconds_left: float
    epoch_ends: bool


class Observer:
    """Does nothing; subclasses override what they want to know."""

    def grid_starts(self, cells: list[Cell], costs: dict[str, Cost], source: str) -> None:
        """Before the first training; ``costs`` by variant, ``source`` says where the data came from."""

    def network_advised(self, variant: str, advice: str) -> None:
        """After the grid has started, for each network with something to know before it is trained."""

    def cell_skipped(self, cell: Cell, folder: Path, result: Result) -> None:
        """The cell was finished by an earlier run."""

    def cell_starts(self, cell: Cell, folder: Path, resumed: bool) -> None:
        """Before a training."""

    def cell_progresses(self, cell: Cell, progress: Progress) -> None:
        """Several times a second during a training."""

    def cell_ends(self, cell: Cell, folder: Path, result: Result) -> None:
        """After a training and its evaluation."""
