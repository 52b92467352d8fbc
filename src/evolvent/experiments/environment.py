"""What a result depends on besides its configuration."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

_PACKAGES = ("evolvent", "torch", "lightning-fabric", "numpy", "safetensors")


def environment(seed: int, devices: int, nodes: int) -> dict[str, Any]:
    """Versions, seed, threads, processes and the state of the source tree."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": dict(_versions()),
        "threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "devices": devices,
        "nodes": nodes,
        "seed": seed,
        "git": _git_state(),
    }


@cache
def _versions() -> dict[str, str]:
    return {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def _git_state() -> str | None:
    """Commit of the source tree that the package runs from, marked if it was changed; None outside a checkout.

    A repository that does not track this file is somebody else's: the package is installed inside it.
    """
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def _git(*arguments: str) -> str | None:
    """What git prints about the folder of this file; None if it fails."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
