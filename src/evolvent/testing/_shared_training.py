"""One of several processes that train a task together, started by :func:`evolvent.testing.check_task`.

Run as ``python -m evolvent.testing._shared_training JOB``, where JOB is a JSON file that :func:`train_together` wrote.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from evolvent._core.files import write_json
from evolvent.experiments.engine import DataShelf, Resources, measure_cost, prepare, run_cell
from evolvent.experiments.recipe import Cell
from evolvent.tasks import TASKS
from evolvent.testing._claims import claim

_LONGEST = 150  # seconds
_SCRIPT = "task_to_check"  # name under which the file of a task that is not importable is run
_LAUNCHERS = ("LOCAL_", "NODE_", "GROUP_", "RANK", "WORLD_SIZE", "MASTER_", "SLURM_", "TORCHELASTIC_")


def check_not_nested() -> None:
    """Refuse a check that a script starts again while one of the processes runs it for its task."""
    claim(
        _SCRIPT not in sys.modules,
        "shared: the script that defines the task also calls check_task, without end. "
        'Call it below `if __name__ == "__main__":`.',
    )


def train_together(cell: Cell, folder: Path, data_folder: Path | None, processes: int = 2) -> None:
    """Train a cell by several processes on the CPU, with gloo.

    Raises:
        AssertionError: if one of them fails.
    """
    job = folder.with_name(f"{folder.name}.json")
    write_json(job, _job(cell, folder, data_folder, processes))
    mine = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    shared = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "NODE_RANK": "0"}
    logs = [job.with_suffix(f".{rank}.log") for rank in range(processes)]
    started = [_start(job, log, {**mine, **shared, "LOCAL_RANK": str(rank)}) for rank, log in enumerate(logs)]
    codes = _wait_for(started)
    for rank, code in enumerate(codes):
        if code:
            said = logs[rank].read_text(encoding="utf-8").strip().splitlines()
            raise AssertionError(f"shared: process {rank} of {processes} failed: {(said or ['no message'])[-1]}")
    if None in codes:
        raise AssertionError(
            f"shared: {processes} processes did not end in {_LONGEST} s. The kept model is tested in one process, so "
            "conclude and measure must not wait for others."
        )


def _wait_for(started: list[subprocess.Popen[bytes]]) -> list[int | None]:
    """Wait until all have ended, one has failed, or the time is over; None for those that were still running."""
    deadline = time.monotonic() + _LONGEST
    while any(process.poll() is None for process in started) and not any(process.poll() for process in started):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    codes = [process.poll() for process in started]
    for process in started:
        process.kill()
        process.wait()
    return codes


def _job(cell: Cell, folder: Path, data_folder: Path | None, processes: int) -> dict[str, Any]:
    return {
        "cell": cell.model_dump(mode="json"),
        "module": cell.kind.__module__,
        "file": inspect.getfile(cell.kind),
        "folder": folder,
        "data_folder": data_folder,
        "processes": processes,
    }


def _start(job: Path, log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "evolvent.testing._shared_training", str(job)]
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file, env=environment)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _register(task: str, module: str, file: str) -> None:
    """Run the code that registers a task: by import, or from its file where that is a script or a test."""
    if task in TASKS:
        return
    if module != "__main__" and importlib.util.find_spec(module.partition(".")[0]):
        importlib.import_module(module)
    if task not in TASKS:
        spec = importlib.util.spec_from_file_location(_SCRIPT, file)
        assert spec
        assert spec.loader
        sys.modules[_SCRIPT] = loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)


def main(job: Path) -> None:
    """Train as one of the processes that the job asks for."""
    values = json.loads(job.read_text(encoding="utf-8"))
    _register(values["cell"]["task"]["name"], values["module"], values["file"])
    cell, resources = Cell.read(values["cell"], str(job)), Resources(devices=values["processes"])
    data_folder = Path(values["data_folder"]) if values["data_folder"] else None
    ready = prepare(cell, DataShelf(data_folder).material(cell), resources)
    run_cell(ready, Path(values["folder"]), measure_cost(ready), resources)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
