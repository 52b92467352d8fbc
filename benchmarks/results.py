"""Stores what a benchmark measured, with date, versions and machine."""

from __future__ import annotations

import datetime
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from evolvent._core.files import write_text

PACKAGES = ("evolvent", "torch", "lightning-fabric")


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
