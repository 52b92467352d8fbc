"""Times variants interleaved, and stores what a benchmark measured, with date, versions and machine."""

from __future__ import annotations

import datetime
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from evolvent._core.files import write_text

PACKAGES = ("evolvent", "torch", "lightning-fabric")


def interleaved(
    variants: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.process_time
) -> dict[str, list[float]]:
    """Seconds of each variant in each round, by processor time unless told otherwise; every second round goes back
    through them, and two rounds before the first warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for i in range(-2, rounds):
        for name in variants if i % 2 else reversed(variants):
            begin = clock()
            variants[name]()
            if i >= 0:
                seconds[name].append(clock() - begin)
    return seconds


def store(name: str, measured: dict[str, Any], packages: tuple[str, ...] = PACKAGES) -> None:
    """Write ``results/<name>.json`` beside this file."""
    circumstances = {
        "benchmark": name,
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {torch.get_num_threads()} threads",
        "packages": {package: version(package) for package in packages},
    }
    target = Path(__file__).parent / "results" / f"{name}.json"
    write_text(target, json.dumps(circumstances | measured, indent=2) + "\n")
    print(f"stored in {target.relative_to(Path(__file__).parent.parent)}")
