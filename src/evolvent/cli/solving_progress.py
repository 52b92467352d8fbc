"""What the terminal shows while a problem is solved."""

from __future__ import annotations

from pathlib import Path

from evolvent.cli.display import TerminalObserver, show_line
from evolvent.experiments.observer import TrainingProgress
from evolvent.experiments.recipe import Cell
from evolvent.experiments.record import Cost, Result
from evolvent.report.numbers import count, duration
from evolvent.tasks.pde.settings import PART_NAMES

_PARTS = {f"loss_{name}": name for name in PART_NAMES}


class SolvingObserver(TerminalObserver):
    """For each training a line: the parts of the loss, the error if there is a reference, and the time left."""

    def __init__(self, problem: str) -> None:
        super().__init__(None)
        self.problem = problem

    def grid_starts(self, cells: list[Cell], origin: str) -> None:
        cell = cells[0]
        points = count(getattr(cell.data, "points", 0))
        often = "once" if len(cells) == 1 else "twice, to compare"
        show_line(f"{self.problem}: {cell.model.name} at {points} points, solved {often}")

    def network_measured(self, cell: Cell, cost: Cost, advice: str) -> None:
        show_line(f"{count(cost.parameters)} parameters, {cell.optimizer.name}, {cost.device}")

    def text(self, cell: Cell, progress: TrainingProgress) -> str:
        losses = {_PARTS[name]: value for name, value in progress.figures.items() if name in _PARTS}
        parts = [f"step {count(progress.step)}", "loss " + ", ".join(f"{k} {v:.1e}" for k, v in losses.items())]
        if "error" in progress.watched:
            parts.append(f"error {progress.watched['error']:.1e}")
        elif "residual" in progress.watched:
            parts.append(f"residual {progress.watched['residual']:.1e}")
        return "  ".join([*parts, f"{duration(progress.seconds_left)} left"])

    def cell_ends(self, cell: Cell, folder: Path, result: Result) -> None:
        said = [f"{kind.title} {result.figures[kind.name]:.2e}" for kind in result.kinds if kind.name in result.figures]
        self._finish(cell, f"✓ seed {cell.seed}: {', '.join(said)}, {duration(result.seconds)}")
        for turn, reason in result.stopped.items():
            show_line(f"  optimiser of {turn} stopped: {reason}")
