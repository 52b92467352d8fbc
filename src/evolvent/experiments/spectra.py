"""Spectra of the nonlocal maps over training, and the file of a run folder that holds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from evolvent._core.files import atomic_path
from evolvent.analysis.weight_spectrum import nonlocal_maps, nonlocal_spectra
from evolvent.experiments.recipe import FORMAT, check_format
from evolvent.experiments.record import read_arrays, reading

if TYPE_CHECKING:
    from evolvent.analysis.weight_spectrum import WeightSpectrum

SPECTRA = "spectra.npz"

Place = tuple[int, int]  # numbers of the nonlocal block and of the stage, from 1


@dataclass(frozen=True)
class SpectrumHistory:
    """Eigenvalues of the maps over training; epoch 0 is the start."""

    epochs: list[int] = field(default_factory=list)
    real_parts: dict[Place, list[np.ndarray]] = field(default_factory=dict)  # one (C,) for each epoch, ascending
    symmetric: dict[Place, list[np.ndarray]] = field(default_factory=dict)

    def until(self, epoch: int) -> SpectrumHistory:
        """What was recorded up to an epoch."""
        count = sum(one <= epoch for one in self.epochs)
        cut = [{place: rows[:count] for place, rows in part.items()} for part in (self.real_parts, self.symmetric)]
        return SpectrumHistory(self.epochs[:count], *cut)

    def add(self, epoch: int, found: dict[Place, WeightSpectrum]) -> None:
        self.epochs.append(epoch)
        for place, spectrum in found.items():
            self.real_parts.setdefault(place, []).append(spectrum.real_parts.float().numpy())
            self.symmetric.setdefault(place, []).append(spectrum.symmetric.float().numpy())


def write_spectra(path: Path, history: SpectrumHistory) -> None:
    arrays = {"format": np.array(FORMAT), "epochs": np.array(history.epochs)}
    for name in ("real_parts", "symmetric"):
        arrays |= {f"{name}.{b}.{k}": np.stack(rows) for (b, k), rows in getattr(history, name).items()}
    with atomic_path(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def read_spectra(path: Path) -> SpectrumHistory | None:
    """What training recorded; None if there is no record."""
    if not path.is_file():
        return None
    arrays, history = read_arrays(path), SpectrumHistory()
    with reading(path):
        check_format({"format": int(arrays["format"])} if "format" in arrays else {}, str(path))
        history.epochs.extend(arrays["epochs"].tolist())
        for key, values in arrays.items():
            name, *place = key.split(".")
            if place:
                getattr(history, name)[int(place[0]), int(place[1])] = list(values)
    return history


class SpectrumRecord:
    """Writes ``spectra.npz`` at the start and after each epoch, if the network has nonlocal blocks.

    A resumed training goes on with what the file holds up to its epoch.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / SPECTRA
        self.history = SpectrumHistory()

    def start(self, network: nn.Module) -> None:
        self.record(network, 0)

    def resume(self, epoch: int) -> None:
        earlier = read_spectra(self.path)
        self.history = earlier.until(epoch) if earlier else SpectrumHistory()

    def record(self, network: nn.Module, epoch: int) -> None:
        if nonlocal_maps(network):
            self.history.add(epoch, nonlocal_spectra(network))
            write_spectra(self.path, self.history)
