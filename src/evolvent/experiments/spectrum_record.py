"""Records the spectra of the nonlocal maps after each epoch, as training goes."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as pl

from evolvent.analysis.weight_spectrum import nonlocal_maps, nonlocal_spectra
from evolvent.experiments.spectrum_history import SPECTRA, SpectrumHistory, read_spectra, write_spectra


class SpectrumRecord(pl.Callback):
    """Writes ``spectra.npz`` at the start and after each epoch, if the network has nonlocal blocks.

    A resumed training goes on with what the file holds up to its epoch.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / SPECTRA
        self.history = SpectrumHistory()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        done = trainer.global_step // int(trainer.num_training_batches)
        earlier = read_spectra(self.path) if trainer.global_step else None
        self.history = earlier.until(done) if earlier else SpectrumHistory()
        if not trainer.global_step:
            self._record(trainer, pl_module, 0)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._record(trainer, pl_module, trainer.current_epoch + 1)

    def _record(self, trainer: pl.Trainer, task: pl.LightningModule, epoch: int) -> None:
        if trainer.is_global_zero and nonlocal_maps(task):
            self.history.add(epoch, nonlocal_spectra(task))
            write_spectra(self.path, self.history)
