"""Cells side by side on one machine, each in a process of its own that is used for one cell after the other."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from evolvent._core.errors import ConfigError
from evolvent._core.stopping import SIGNALS, Stopped, listening
from evolvent.experiments.engine import DataShelf
from evolvent.experiments.jobs import Bench, Event, Failed, Job, Result, TellEvent, settle_process

_PATIENCE = 5.0  # seconds for a process to end before it is killed


class Workers:
    """Runs jobs in ``count`` processes, between which the CPU threads and the GPUs of this process are divided.

    A process that is killed is replaced, and its cell continues from its checkpoint, once.
    """

    def __init__(self, count: int, data_folder: Path | None = None) -> None:
        self.count, self.data_folder = count, data_folder
        self._places: dict[int, _Worker] = {}
        self._waiting: deque[Job] = deque()
        self._retried: set[str] = set()

    def run(self, jobs: Sequence[Job], tell: TellEvent) -> None:
        self._places, self._waiting, self._retried = {}, deque(jobs), set()
        try:
            for place in range(min(self.count, len(jobs))):
                self._start(place)
            while busy := {worker.connection: worker for worker in self._places.values() if worker.job}:
                for connection in wait(list(busy)):
                    self._hear(busy[connection], tell)  # pyright: ignore[reportArgumentType]
        finally:
            for worker in self._places.values():
                worker.ask_to_end()
            for worker in self._places.values():
                worker.end()

    def _hear(self, worker: _Worker, tell: TellEvent) -> None:
        """Pass a message on; a worker that has ended its job gets the next, and one that has died is replaced."""
        job = worker.job
        assert job
        event = worker.hear()
        if event is not None:
            tell(job, event)
            if self._waiting and not worker.job:
                worker.give(self._waiting.popleft())
            return
        worker.end()
        if not worker.began and not worker.was_killed:
            raise ConfigError(
                f"a worker process ended {worker.how_it_ended} before it could begin. "
                "A script that runs cells side by side must do so below `if __name__ == '__main__':`."
            )
        if job.cell.label in self._retried:
            tell(job, Failed(f"its process was killed twice, the last time {worker.how_it_ended}."))
        else:
            self._retried.add(job.cell.label)
            self._waiting.appendleft(job)
        del self._places[worker.place]
        if self._waiting:
            self._start(worker.place)

    def _start(self, place: int) -> None:
        threads = max(1, torch.get_num_threads() // self.count)
        self._places[place] = _Worker(place, threads, self.data_folder)
        self._places[place].give(self._waiting.popleft())


class _Worker:
    """A process at one of the places, and the job that it is working on."""

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
        with suppress(OSError):  # it has just died, which the next message shows
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

    def ask_to_end(self) -> None:
        """A training that runs there writes a checkpoint first."""
        self.process.terminate()

    def end(self) -> None:
        self.ask_to_end()
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
    for name in set(SIGNALS) - {"SIGTERM"}:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)  # the parent gets it and ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    settle_process(threads)
    bench = Bench(DataShelf(data_folder))
    try:
        with listening(["SIGTERM"]):
            while True:
                connection.send(bench.attempt(connection.recv(), connection.send))
    except Stopped as stopped:
        os._exit(stopped.code)
    except (EOFError, OSError):  # the parent is gone
        os._exit(1)


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
    resource_tracker.ensure_running()  # its start would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
