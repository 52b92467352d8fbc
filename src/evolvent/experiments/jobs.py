"""A cell that is to be run, the messages about it, and how a process carries it out."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import torch

from evolvent._core.errors import EvolventError
from evolvent._core.files import write_text
from evolvent._core.told_warnings import told_warnings
from evolvent.experiments.engine import (
    DataShelf,
    Prepared,
    Resources,
    advise_on_data,
    advise_on_steps,
    measure_cost,
    prepare,
    run_cell,
)
from evolvent.experiments.freed_memory import keep_freed_memory
from evolvent.experiments.observer import Observer, TrainingProgress
from evolvent.experiments.recipe import Cell
from evolvent.experiments.record import Cost, Result

TRACEBACK = "traceback.txt"
_LAUNCHERS = ("SLURM_", "TORCHELASTIC_", "OMPI_", "LSB_", "JSM_")
_RANKS = (
    "RANK",
    "LOCAL_RANK",
    "NODE_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)


@dataclass(frozen=True)
class Job:
    """A cell to be trained in its folder; the first cell of a variant is also asked for the network's cost."""

    cell: Cell
    folder: Path
    first: bool
    interval: float = Observer.interval  # least seconds between two messages of progress


@dataclass(frozen=True)
class Measured:
    """The network was measured; ``advice`` is empty if there is none."""

    cost: Cost
    advice: str


@dataclass(frozen=True)
class Started:
    """The training begins, or goes on from a checkpoint."""

    resumed: bool


@dataclass(frozen=True)
class Warned:
    """The user should know this about the training."""

    text: str


@dataclass(frozen=True)
class Failed:
    """The job ended with an error."""

    reason: str


Event = Measured | Started | Warned | TrainingProgress | Result | Failed
"""Messages about a job; ``Result`` and ``Failed`` are the last."""

TellEvent = Callable[[Job, Event], None]


class Runner(Protocol):
    """Carries out a list of jobs: in this process, in worker processes, or on a cluster."""

    def run(self, jobs: Sequence[Job], tell: TellEvent) -> None:
        """Return when all jobs have ended; ``tell`` is called in the calling thread."""
        ...


class Bench:
    """Carries out jobs in this process; a data set is read once, and each variant's cost is measured once.

    Args:
        shelf: the data sets.
        resources: processes that share each training.
        ready: cells that were prepared before, by label; each is used once.
    """

    def __init__(
        self, shelf: DataShelf, resources: Resources | None = None, ready: dict[str, Prepared] | None = None
    ) -> None:
        self.shelf, self.resources, self.ready = shelf, resources or Resources(), ready or {}
        self._costs: dict[str, Cost] = {}

    def run(self, jobs: Sequence[Job], tell: TellEvent) -> None:
        """One job after the other; an error ends them all."""
        for job in jobs:
            tell(job, self.carry_out(job, partial(tell, job)))

    def carry_out(self, job: Job, send: Callable[[Event], None]) -> Result:
        """Prepare, measure and train a cell; its result is returned, not sent."""
        cell = job.cell
        prepared = self.ready.pop(cell.label, None) or prepare(cell, self.shelf.material(cell), self.resources)
        if cell.variant not in self._costs:
            self._costs[cell.variant] = measure_cost(prepared)
        if job.first:
            send(Measured(self._costs[cell.variant], advise_on_steps(prepared)))
            for line in advise_on_data(prepared):
                send(Warned(line))
        send(Started(resumed=(job.folder / "checkpoints").exists()))
        return run_cell(
            prepared, job.folder, self._costs[cell.variant], self.resources, _Forwarding(send, job.interval)
        )

    def attempt(self, job: Job, send: Callable[[Event], None]) -> Result | Failed:
        """Carry a job out; an error becomes a message, and the traceback of a bug is kept in the cell's folder."""
        note = job.folder / TRACEBACK
        try:
            with told_warnings(lambda text: send(Warned(text))):
                result = self.carry_out(job, send)
        except EvolventError as error:
            return Failed(str(error))
        except Exception as error:
            write_text(note, traceback.format_exc())
            return Failed(f"{type(error).__name__}: {' '.join(str(error).split())[:200]} (see {note})")
        note.unlink(missing_ok=True)
        return result


class _Forwarding(Observer):
    def __init__(self, send: Callable[[Event], None], interval: float) -> None:
        self._send, self.interval = send, interval

    def cell_progresses(self, cell: Cell, progress: TrainingProgress) -> None:
        self._send(progress)

    def cell_warns(self, cell: Cell, text: str) -> None:
        self._send(Warned(text))


def settle_process(threads: int) -> None:
    """Make this process one that trains cells alone, on so many CPU threads.

    Variables of the launcher that started the grid are dropped: they would tell Lightning that other processes share
    the training.
    """
    for name in list(os.environ):
        if name.startswith(_LAUNCHERS) or name in _RANKS:
            del os.environ[name]
    torch.set_num_threads(threads)
    keep_freed_memory()
