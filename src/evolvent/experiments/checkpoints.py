"""Checkpoints of a training: whole or not there, and made of nothing but plain values and tensors."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from evolvent._core.errors import ConfigError
from evolvent._core.files import atomic_path
from evolvent.experiments.recipe import FORMAT

LAST = Path("checkpoints") / "last.ckpt"


def write_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write beside the target and rename."""
    with atomic_path(folder / LAST) as draft:
        torch.save({"format": FORMAT, **state}, draft)


def read_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The last checkpoint of a cell, read with torch's restricted unpickler; None if there is none."""
    path = folder / LAST
    if not path.is_file():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, zipfile.BadZipFile) as error:
        reason = str(error).split("\n")[0]
        raise ConfigError(f"{path} is not one of our checkpoints ({reason}). Delete it to start again.") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ConfigError(f"{path} is a checkpoint of another version of the library. Delete it to start again.")
    return state
