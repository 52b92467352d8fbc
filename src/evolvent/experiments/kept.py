"""Which state of a training is kept: the best on held-out rows, or the last; written when a checkpoint is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from evolvent.tasks import Figure, Task


class KeptState:
    """The state of a task after its best epoch so far.

    Args:
        score: the figure that decides.
        held_out: whether it is measured on rows by which a model may be chosen; if not, the last state is kept.
    """

    def __init__(self, score: Figure, held_out: bool) -> None:
        self.score = score
        self.chosen = held_out and score.better is not None
        self.epoch, self.value = 0, None
        self._present = False  # whether it is the task's present state, and not written yet
        self._earlier: dict[str, Tensor] | None = None  # a copy that is not written, if the task has changed since

    def consider(self, epoch: int, value: float, last: bool) -> None:
        """Take the present state if it is better than the kept one, or the last where nothing is chosen."""
        better = (self.score.improves(value, self.value) or not self.epoch) if self.chosen else last
        if better:
            self.epoch, self.value = epoch, value
            self._present, self._earlier = True, None

    def out_of_patience(self, epoch: int, patience: int | None) -> bool:
        """Whether so many epochs have passed without a better one."""
        return patience is not None and self.chosen and epoch - self.epoch >= patience

    def copy(self, task: Task) -> None:
        """Copy the kept state if it is the present one, which goes on changing before it is written."""
        if self._present:
            self._present, self._earlier = False, _copied(task)

    def write(self, task: Task, folder: Path) -> None:
        """Save the kept state if it was not saved yet; the task stays as it is."""
        if self._present:
            task.save_kept(folder)
        elif self._earlier is not None:
            present = _copied(task)
            task.load_state_dict(self._earlier)
            task.save_kept(folder)
            task.load_state_dict(present)

    def written(self) -> None:
        """The first process has saved it; all processes forget their copies."""
        self._present, self._earlier = False, None

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"best_epoch": self.epoch, "best_score": self.value}

    def load(self, state: dict[str, Any]) -> None:
        self.epoch, self.value = state["best_epoch"], state["best_score"]


def _copied(task: Task) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in task.state_dict().items()}
