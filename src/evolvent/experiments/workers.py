"""Cells side by side on one machine, each in a process of its own that is used for one cell after the other."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from evolvent._core.errors import ConfigError
from evolvent.experiments.engine import DataShelf
from evolvent.experiments.jobs import Bench, Event, Failed, Job, Result, Tell, settle_process

_PATIENCE = 5.0  # seconds for a process to end before it is killed


class Workers:
    """Runs jobs in ``count`` processes, between which the CPU threads and the GPUs of this process are divided.

    A process that is killed is replaced, and its cell goes on once more from its checkpoint.
    """

    def __init__(self, count: int, data_folder: Path | None = None) -> None:
        self.count, self.data_folder = count, data_folder
        self._places: list[_Worker] = []

    def run(self, jobs: Sequence[Job], tell: Tell) -> None:
        waiting, retried = deque(jobs), set[str]()
        try:
            self._places = [self._start(place) for place in range(min(self.count, len(jobs)))]
            for worker in self._places:
                worker.give(waiting.popleft())
            while busy := {worker.connection: worker for worker in self._places if worker.job}:
                for connection in wait(list(busy)):
                    self._hear(busy[connection], waiting, retried, tell)  # pyright: ignore[reportArgumentType]
        finally:
            for worker in self._places:
                worker.end()

    def _hear(self, worker: _Worker, waiting: deque[Job], retried: set[str], tell: Tell) -> None:
        job = worker.job
        assert job
        event = worker.hear()
        if event is None:
            self._replace(worker)
            if job.cell.label not in retried:
                retried.add(job.cell.label)
                waiting.appendleft(job)
            else:
                tell(job, Failed(f"its process was killed twice, the last time {worker.how_it_ended}."))
        else:
            tell(job, event)
        if waiting:
            for free in self._places:
                if not free.job and waiting:
                    free.give(waiting.popleft())

    def _replace(self, worker: _Worker) -> None:
        worker.end()
        if not worker.began and not worker.was_killed:
            raise ConfigError(
                f"a worker process ended {worker.how_it_ended} before it could begin. "
                "A script that runs cells side by side must do so below `if __name__ == '__main__':`."
            )
        self._places[worker.place] = self._start(worker.place)

    def _start(self, place: int) -> _Worker:
        return _Worker(place, max(1, torch.get_num_threads() // self.count), self.data_folder)


class _Worker:
    """A process at one of the places, and the job it is at."""

    def __init__(self, place: int, threads: int, data_folder: Path | None) -> None:
        self.place = place
        self.job: Job | None = None
        self.began = False
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        settings = (theirs, threads, _visible_gpu(place), data_folder)
        self.process = context.Process(target=_serve, args=settings, daemon=True, name=f"evolvent-worker-{place}")
        with _interrupts_held_back():
            self.process.start()
        theirs.close()

    def give(self, job: Job) -> None:
        self.job = job
        with suppress(OSError):  # it has just died, which is heard next
            self.connection.send(job)

    def hear(self) -> Event | None:
        """The next message about the job; None if the process has died."""
        try:
            event = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(_PATIENCE)  # so that its exit code is its own
            return None
        self.began = True
        if isinstance(event, Result | Failed):
            self.job = None
        return event

    def end(self) -> None:
        self.process.terminate()
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()

    @property
    def was_killed(self) -> bool:
        return (self.process.exitcode or 0) < 0

    @property
    def how_it_ended(self) -> str:
        code = self.process.exitcode or 0
        if not self.was_killed:
            return f"with exit code {code}"
        name = signal.Signals(-code).name
        return f"by {name}{', perhaps for lack of memory' if name == 'SIGKILL' else ''}"


def _serve(connection: Connection, threads: int, gpu: str | None, data_folder: Path | None) -> None:
    """What a worker process does: job after job, until its parent ends it or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    settle_process(threads)
    bench = Bench(DataShelf(data_folder))
    while True:
        connection.send(bench.attempt(connection.recv(), connection.send))


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent
    wait([parent.sentinel])
    os._exit(1)


def _visible_gpu(place: int) -> str | None:
    """The GPU of a place, as ``CUDA_VISIBLE_DEVICES`` names it; places beyond the last GPU share them. None: no GPU."""
    if not torch.cuda.is_available():
        return None
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in named.split(",") if name.strip()]
    names = names or [str(number) for number in range(torch.cuda.device_count())]
    return names[place % len(names)]


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """A process that is started within the block never gets Ctrl-C, not even while it is still importing."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
