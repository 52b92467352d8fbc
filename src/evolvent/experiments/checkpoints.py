"""Checkpoints that are whole or not there, and hold nothing but plain values and tensors."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.plugins.io import CheckpointIO

from evolvent._core.errors import ConfigError
from evolvent._core.files import atomic_path

LAST = Path("checkpoints") / "last.ckpt"


class AtomicCheckpointIO(CheckpointIO):
    """Writes beside the target and renames; reads with torch's restricted unpickler only."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        with atomic_path(path) as draft:
            torch.save(checkpoint, draft)

    def load_checkpoint(self, path: str | Path, map_location: Any = None, weights_only: bool | None = None) -> Any:
        try:
            return torch.load(path, map_location=map_location or "cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
            reason = str(error).split("\n")[0]
            raise ConfigError(f"{path} is no checkpoint of ours ({reason}). Delete it to train anew.") from None

    def remove_checkpoint(self, path: str | Path) -> None:
        Path(path).unlink(missing_ok=True)


class LastCheckpoint(pl.Callback):
    """Saves the state after each epoch, and inside an epoch every ``steps`` steps if given."""

    def __init__(self, folder: Path, steps: int | None = None) -> None:
        self.path = folder / LAST
        self.steps = steps

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        inside = batch_idx + 1 < trainer.num_training_batches
        if inside and self.steps and trainer.global_step % self.steps == 0:
            trainer.save_checkpoint(self.path)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.save_checkpoint(self.path)
