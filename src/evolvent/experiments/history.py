"""What training leaves behind as it goes: a row of metrics per epoch, and the best model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl

from evolvent.experiments.observer import Progress
from evolvent.experiments.record import write_metrics
from evolvent.networks import save
from evolvent.tasks.image_task import ImageTask


class Stopwatch(pl.Callback):
    """Measures training time, over resumed sessions too, and tells an observer where training stands.

    Evaluation is not counted as training time.
    """

    def __init__(self, batch_size: int, tell: Callable[[Progress], None], interval: float = 0.2) -> None:
        self.batch_size = batch_size
        self.tell = tell
        self.interval = interval
        self.seconds = 0.0
        self._told = self._began = 0.0
        self._steps_here = 0
        self._seconds_here = 0.0

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._began = self._began or time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        now = time.perf_counter()
        self.seconds += now - self._began
        self._seconds_here += now - self._began
        self._steps_here += 1
        epoch_ends = batch_idx + 1 == trainer.num_training_batches
        self._began = 0.0 if epoch_ends else now
        if epoch_ends or now - self._told > self.interval:
            self._told = now
            self.tell(self._progress(trainer, pl_module, epoch_ends))

    @property
    def images_per_second(self) -> float:
        """Over the steps of this process."""
        return self._steps_here * self.batch_size / self._seconds_here if self._seconds_here else math.nan

    def _progress(self, trainer: pl.Trainer, task: pl.LightningModule, epoch_ends: bool) -> Progress:
        assert isinstance(task, ImageTask)
        sums = task.training_sums
        if epoch_ends:  # the only place where all processes stand at once
            sums = trainer.strategy.reduce(sums.clone(), reduce_op="sum")
        loss, hits, count = sums.tolist()
        epochs, per_epoch = trainer.max_epochs or 1, int(trainer.num_training_batches)
        left = epochs * per_epoch - trainer.global_step
        return Progress(
            step=trainer.global_step,
            steps=epochs * per_epoch,
            epoch=trainer.current_epoch + 1,
            epochs=epochs,
            loss=loss / max(count, 1),
            accuracy=hits / max(count, 1),
            images_per_second=self.images_per_second,
            seconds_left=left * self._seconds_here / self._steps_here,
            epoch_ends=epoch_ends,
        )

    def state_dict(self) -> dict[str, Any]:
        return {"seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.seconds = state_dict["seconds"]


class History(pl.Callback):
    """One row of metrics per epoch, and the model: the best on held-out images, or else the last.

    The model of the best epoch is saved as it is found; without held-out images (the watched split is the test set)
    nothing is chosen by it, and the last model is kept.
    """

    def __init__(self, folder: Path, stopwatch: Stopwatch) -> None:
        self.folder = folder
        self.stopwatch = stopwatch
        self.rows: list[dict[str, float]] = []
        self.best_epoch = 0
        self.best_score = -math.inf

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, ImageTask)
        epoch = trainer.current_epoch + 1
        score = pl_module.watched_figures[pl_module.score]
        row = {"epoch": epoch, "step": trainer.global_step, "lr": trainer.optimizers[0].param_groups[0]["lr"]}
        row |= {f"train_{name}": value for name, value in pl_module.training_figures().items()}
        row |= {f"{pl_module.watched}_{name}": value for name, value in pl_module.watched_figures.items()}
        row |= {"images_per_second": self.stopwatch.images_per_second, "seconds": self.stopwatch.seconds}
        self.rows.append(row)
        last = epoch == trainer.max_epochs
        improved = score > self.best_score if pl_module.watched == "val" else last
        if improved:
            self.best_epoch, self.best_score = epoch, score
        if trainer.is_global_zero:
            write_metrics(self.folder / "metrics.csv", self.rows)
            if improved:
                pl_module.preprocess.save(self.folder / "model")
                save(pl_module.model, self.folder / "model")

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "best_epoch": self.best_epoch, "best_score": self.best_score}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rows = state_dict["rows"]
        self.best_epoch = state_dict["best_epoch"]
        self.best_score = state_dict["best_score"]
