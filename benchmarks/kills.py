"""Trainings that are killed at random moments and resumed, against the same trainings left alone.

SIGKILL twenty times over three recipes anywhere from the first step to the last, also while files are
being written. Each training must end with bitwise the weights and figures of the one that was left alone. Results are
stored as ``results/kills.json``.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from results import store

from evolvent.experiments.checkpoints import read_checkpoint
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import Recipe
from evolvent.experiments.record import is_finished, read_metrics

TIMES = ("seconds", "rows_per_second")  # columns of metrics.csv that the clock decides
POINTS = {"model": {"name": "point_resnet"}, "data": {"points": 120, "batch_size": 40, "validation": 40}}
RECIPES: dict[str, tuple[int, dict[str, Any]]] = {
    "images, augmented, dropout": (
        7,
        {
            "model": {
                "name": "hamiltonian",
                "options": {"channels": [8, 16], "blocks": 2, "step_size": 0.2, "dropout": 0.3},
            },
            "data": {"name": "digits", "batch_size": 48, "validation": 0.1, "augment": {"pad": 1, "flip": True}},
            "schedule": {"name": "cosine", "warmup": 0.5},
            "training": {"epochs": 12, "checkpoint_steps": 3},
        },
    ),
    "points": (
        7,
        POINTS
        | {
            "task": {"name": "points"},
            "optimizer": {"name": "adam", "lr": 0.01},
            "training": {"epochs": 100, "checkpoint_steps": 4},
        },
    ),
    "points, two optimisers in turns": (
        6,
        POINTS
        | {
            "task": {"name": "points", "head_optimizer": {"name": "adam", "lr": 0.01}, "head_every": 3},
            "optimizer": {"lr": 0.05},
            "training": {"epochs": 100, "checkpoint_steps": 4},
        },
    ),
}


class Announce(Observer):
    """Says when the training begins, which is when imports are over and data is read."""

    def cell_starts(self, cell: Any, folder: Path, resumed: bool) -> None:
        print("starts", flush=True)


def train(name: str, folder: Path) -> None:
    """What a process that may be killed does."""
    torch.set_num_threads(1)
    values = {"name": "kills", "title": name, "question": "Is it the same?", **RECIPES[name][1]}
    run_grid(Recipe.read(values, name), folder, resume=True, observer=Announce())


def start(name: str, folder: Path) -> subprocess.Popen[str]:
    """Start a training and return when it begins."""
    command = [sys.executable, __file__, name, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    if "starts" not in process.stdout.readline():
        raise RuntimeError(f"the training of {name} did not begin")
    return process


def finish(name: str, folder: Path) -> float:
    """Train to the end; returns the seconds from the beginning of the training."""
    with start(name, folder) as process:
        began = time.perf_counter()
        process.wait()
    if not is_finished(folder):
        raise RuntimeError(f"the training of {name} failed")
    return time.perf_counter() - began


def kill(name: str, folder: Path, after: float) -> int:
    """Kill a training after so many seconds; returns the step of the checkpoint that is left."""
    with start(name, folder) as process:
        time.sleep(after)
        process.kill()
    if is_finished(folder):
        raise RuntimeError(f"the training of {name} ended before it was killed; make it longer")
    state = read_checkpoint(folder)
    return state["step"] if state else 0


def same(one: Path, other: Path) -> dict[str, bool]:
    """Whether the kept models are bitwise the same, and the figures of all epochs."""
    files = [path.relative_to(one) for path in (one / "model").iterdir()]
    weights = all((one / name).read_bytes() == (other / name).read_bytes() for name in files)
    figures = [read_metrics(folder / "metrics.csv") for folder in (one, other)]
    kept = [{name: column for name, column in found.items() if name not in TIMES} for found in figures]
    return {"weights": weights, "figures": kept[0] == kept[1]}


def measure(name: str, folder: Path, draw: random.Random) -> dict[str, Any]:
    kills = RECIPES[name][0]
    seconds = finish(name, folder / "alone")
    left = [kill(name, folder / "killed", draw.random() * seconds / kills) for _ in range(kills)]
    finish(name, folder / "killed")
    state = read_checkpoint(folder / "killed")
    return {
        "kills": kills,
        "steps": state["step"] if state else 0,
        "steps_kept_after_each_kill": left,
        "seconds_alone": round(seconds, 2),
        "same": same(folder / "alone", folder / "killed"),
    }


def main() -> None:
    draw, rows = random.Random(0), {}
    for name in RECIPES:
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = row = measure(name, Path(folder), draw)
        print(f"{name}: {row['kills']} kills in {row['steps']} steps, checkpoints {row['steps_kept_after_each_kill']}, "
              f"same weights: {row['same']['weights']}, same figures: {row['same']['figures']}")  # fmt: skip
    store("kills", {"asked": "bitwise the same weights and figures", "recipes": rows})
    if not all(all(row["same"].values()) for row in rows.values()):
        sys.exit("a killed and resumed training differs from the one that was left alone")


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2])) if len(sys.argv) > 1 else main()
