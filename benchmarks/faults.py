"""Signals, lost processes and full disks: exit code, message, and whether the run then goes on to its end.

Each fault hits ``evolvent run`` in the middle of a training; then the same command with ``--resume`` must finish it.
Results are stored as ``results/faults.json``.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from results import store

from evolvent.experiments.record import is_finished

RECIPE: dict[str, Any] = {
    "name": "faults",
    "title": "Faults",
    "question": "Is anything lost?",
    "model": {"name": "point_resnet", "options": {"width": 16, "layers": 4}},
    "task": {"name": "points"},
    "data": {"points": 200, "batch_size": 40},
    "training": {"epochs": 400, "checkpoint_steps": 2},
}
Fault = Callable[[subprocess.Popen, Path], None]


def start(folder: Path, options: tuple[str, ...], largest_file: int | None = None) -> subprocess.Popen:
    command = [sys.executable, "-m", "evolvent.cli", "run", "faults.yaml", "--out", "run", "--resume", *options]

    def limit() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which shells switch off for jobs in the background
        if largest_file:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    return subprocess.Popen(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limit)  # fmt: skip


def wait_for_checkpoint(folder: Path, process: subprocess.Popen) -> None:
    while not list(folder.glob("run/**/last.ckpt")) and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.3)


def send(number: int) -> Fault:
    def fault(process: subprocess.Popen, folder: Path) -> None:
        process.send_signal(number)

    return fault


def kill_peer(process: subprocess.Popen, folder: Path) -> None:
    [peer] = [one for one in living(process.pid) if one != process.pid]
    os.kill(peer, signal.SIGKILL)


def delete(process: subprocess.Popen, folder: Path) -> None:
    (folder / "run").rename(folder / "gone")  # at once, while the training writes into it
    shutil.rmtree(folder / "gone", ignore_errors=True)


def nothing(process: subprocess.Popen, folder: Path) -> None:
    """The limit that the process was started with does it."""


def living(session: int) -> list[int]:
    """Processes of a session that are not zombies."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


FAULTS: dict[str, tuple[Fault, tuple[str, ...], int | None, int]] = {  # options, largest file, expected exit code
    "SIGTERM": (send(signal.SIGTERM), (), None, 143),
    "Ctrl-C": (send(signal.SIGINT), (), None, 130),
    "SIGUSR1, as SLURM may send it": (send(signal.SIGUSR1), (), None, 138),
    "SIGTERM, two processes": (send(signal.SIGTERM), ("--devices", "2"), None, 143),
    "a peer killed": (kill_peer, ("--devices", "2"), None, 1),
    "full disk": (nothing, (), 9000, 2),
    "folder deleted": (delete, (), None, 2),
}


def measure(name: str, folder: Path) -> dict[str, Any]:
    fault, options, largest_file, expected = FAULTS[name]
    (folder / "faults.yaml").write_text(yaml.safe_dump(RECIPE))
    process = start(folder, options, largest_file)
    if largest_file is None:
        wait_for_checkpoint(folder, process)
    fault(process, folder)
    _, said = process.communicate(timeout=120)
    deadline = time.monotonic() + 20
    while living(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = len(living(process.pid))
    drafts = len(list(folder.glob("run/**/*.draft")))
    again = start(folder, options)
    again.communicate()
    lines = said.strip().splitlines()
    return {
        "exit code": process.returncode,
        "expected": expected,
        "lines": len(lines),
        "message": " ".join(lines)[:400].replace(str(folder), "FOLDER"),
        "processes left": left,
        "drafts left": drafts,
        "resumable": again.returncode == 0 and is_finished(folder / "run"),
    }


def main() -> None:
    rows = {}
    for name in FAULTS:
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = row = measure(name, Path(folder))
        print(f"{name}: {row}", flush=True)
    store("faults", {"asked": "the expected code, one line, nothing left, and resumable", "faults": rows})
    good = [r["exit code"] == r["expected"] and r["lines"] == 1 and r["resumable"] and not r["processes left"]
            and not r["drafts left"] for r in rows.values()]  # fmt: skip
    if not all(good):
        sys.exit("a fault ended otherwise than asked")


if __name__ == "__main__":
    main()
