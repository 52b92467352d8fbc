"""Cells as tasks of a Ray cluster whose nodes share a file system (https://docs.ray.io)."""

from __future__ import annotations

import logging
import os
import pickle
import socket
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from evolvent._core.errors import ConfigError
from evolvent.experiments.engine import DataShelf
from evolvent.experiments.jobs import Bench, Event, Failed, Job, Result, TellEvent, settle_process

_ANSWER_SECONDS = 5.0  # how long a cluster may take to accept a connection
_RETRIES = 3  # of a cell whose worker or node dies
_AHEAD = 2  # jobs handed to Ray for each one that it has room for, so that no worker waits for the next
_POLL_SECONDS = 0.1


@contextmanager
def ray_cluster(
    address: str, devices: int = 1, at_once: int | None = None, data_folder: Path | None = None
) -> Iterator[Cluster]:
    """Connect to Ray, or start it on this machine for ``"local"``, and disconnect or end it after the block.

    A Ray that this process is connected to already is used and stays.

    Args:
        address: ``local``, ``auto``, ``host:port`` or ``ray://host:port``.
        devices: CPU cores of each cell or, on a cluster with GPUs, its GPUs.
        at_once: the largest number of cells at a time.
        data_folder: where to look for data sets.

    Raises:
        ConfigError: if Ray is not installed, does not answer, or has no node with so many devices.
    """
    ray = _import_ray()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address, devices, at_once)
    try:
        yield Cluster(ray, devices, at_once, data_folder)
    finally:
        if ours:
            ray.shutdown()


class Cluster:
    """Runs jobs as Ray tasks; one whose worker or node dies continues from its checkpoint on another."""

    def __init__(self, ray: Any, devices: int, at_once: int | None, data_folder: Path | None) -> None:
        self.ray, self.devices, self.at_once = ray, devices, at_once
        self.data_folder = None if data_folder is None else data_folder.absolute()
        self.unit = "GPU" if self._room("GPU") else "CPU"
        if self.unit == "GPU" and devices > 1:
            raise ConfigError(
                f"on a Ray cluster each cell is trained on one GPU, got --devices {devices}. Leave it out."
            )
        if not self._room(self.unit):
            raise ConfigError(f"no node of the Ray cluster has {devices} {self.unit}s for a cell. Lower --devices.")

    def run(self, jobs: Sequence[Job], tell: TellEvent) -> None:
        from ray.util.queue import Queue

        waiting, running = deque(jobs), dict[Any, Job]()
        jobs_by_label = {job.cell.label: job for job in jobs}
        queue = Queue(actor_options={"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1})
        start = self._starter(queue)
        try:
            while waiting or running:
                while waiting and len(running) < self._places():
                    job = waiting.popleft()
                    running[start(replace(job, folder=job.folder.absolute()))] = job
                ended, _ = self.ray.wait(list(running), timeout=_POLL_SECONDS)
                for message in queue.get_nowait_batch(queue.qsize()):
                    label, event = pickle.loads(message)
                    tell(jobs_by_label[label], event)
                for reference in ended:
                    tell(running.pop(reference), self._outcome(reference))
        finally:
            for reference in running:
                self.ray.cancel(reference, force=True)
            queue.shutdown(force=True)

    def _starter(self, queue: Any) -> Callable[[Job], Any]:
        """Hands a job to Ray and returns the reference to its outcome."""
        amount = {"num_gpus": 1, "num_cpus": 1} if self.unit == "GPU" else {"num_cpus": self.devices}
        task = self.ray.remote(max_retries=_RETRIES, **amount)(_carry_out)
        variables = {name: value for name, value in os.environ.items() if name.startswith("EVOLVENT_")}
        common = _Common(uuid.uuid4().hex, self.data_folder, amount["num_cpus"])
        return lambda job: task.remote(job, queue, common, variables)

    def _outcome(self, reference: Any) -> Result | Failed:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            return Failed(f"{type(error).__name__}: {lines[0][:200] if lines else 'no reason given'}")

    def _places(self) -> int:
        """Jobs that Ray may hold now; nodes come and go."""
        return self.at_once or max(1, _AHEAD * self._room(self.unit))

    def _room(self, unit: str) -> int:
        """Cells for which the living nodes have devices of this kind."""
        alive = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sum(int(found.get(unit, 0)) // (self.devices if unit == "CPU" else 1) for found in alive)


@dataclass(frozen=True)
class _Common:
    """What all tasks of a run have in common."""

    run: str  # a name of the run, since Ray uses a process for more than one
    data_folder: Path | None
    threads: int


def _carry_out(job: Job, queue: Any, common: _Common, variables: dict[str, str]) -> Result | Failed:
    """The Ray task. Messages are pickled here so that the queue's process need not import PyTorch to pass them on."""
    os.environ.update(variables)
    if not any((folder / "recipe.yaml").is_file() for folder in (job.folder, job.folder.parents[1])):
        host = socket.gethostname()
        return Failed(f"{host} does not see {job.folder}. Choose a folder with --out that all nodes share.")

    def send(event: Event) -> None:
        queue.put(pickle.dumps((job.cell.label, event)))

    return _bench(common).attempt(job, send)


@lru_cache(maxsize=1)
def _bench(common: _Common) -> Bench:
    settle_process(common.threads)
    return Bench(DataShelf(common.data_folder))


def _import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise ConfigError("--ray needs Ray. Install it with: pip install 'evolvent[cluster]'") from None
    return ray


def _connect(ray: Any, address: str, devices: int, at_once: int | None) -> None:
    """Start or find a Ray, without its messages and usage reports."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        cores = max(os.cpu_count() or 1, devices * (at_once or 1))
        ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
        return
    where = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address
    _check_answer(where)
    try:
        ray.init(address=where, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        if where == "auto":
            raise ConfigError(
                "no Ray cluster runs on this machine. Start one with: ray start --head, or give the address of one."
            ) from None
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"no Ray cluster at {where}: {reason[:200]} Start one with: ray start --head") from None


def _check_answer(address: str) -> None:
    """Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    if not host or not port.isdigit():
        raise ConfigError(f"--ray takes local, auto, host:port or ray://host:port, got {address!r}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
    except OSError as error:
        reason = error.strerror or f"no answer within {_ANSWER_SECONDS:.0f} s"
        raise ConfigError(f"no Ray cluster answers at {address}: {reason}. Start one with: ray start --head") from None
