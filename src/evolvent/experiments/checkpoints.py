"""Checkpoints of a training: whole or not there, and made of nothing but plain values and tensors.

A file is a line of text, the sha256 of what follows, and what ``torch.save`` writes. The last two are kept: should the
last one be damaged, the training goes on from the one before.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch

from evolvent._core.errors import ConfigError
from evolvent._core.files import atomic_path
from evolvent.experiments.recipe import FORMAT

LAST = Path("checkpoints") / "last.ckpt"
PREVIOUS = Path("checkpoints") / "previous.ckpt"

_MAGIC = b"evolvent checkpoint\n"
_DIGEST = hashlib.sha256().digest_size
_NEEDED = frozenset({"step", "task", "optimizers", "sums", "rows", "ended"})


def write_checkpoint(folder: Path, state: dict[str, Any], overwrite: bool = False) -> None:
    """Write beside the target and rename; the last checkpoint becomes the one before.

    Args:
        folder: of the cell.
        state: plain values and tensors.
        overwrite: write over the last checkpoint, and leave the one before as it is: a training that explodes keeps
            a state from before.
    """
    last = folder / LAST
    with atomic_path(last) as draft:
        with draft.open("wb") as file:
            file.write(_MAGIC + bytes(_DIGEST))
            digest = _save({"format": FORMAT, **state}, file)
            file.seek(len(_MAGIC))
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())  # a full disk may show only now
        if last.is_file() and not overwrite:
            os.replace(last, folder / PREVIOUS)  # until the draft is renamed this one is the last


def read_checkpoint(folder: Path, warn: Callable[[str], None] = lambda text: None) -> dict[str, Any] | None:
    """The last whole checkpoint of a cell; None if there is none.

    Args:
        folder: of the cell.
        warn: called with one line if a damaged checkpoint was passed over.

    Raises:
        ConfigError: if there are checkpoints and none can be read.
    """
    faults: list[str] = []
    for path in (folder / LAST, folder / PREVIOUS):
        if path.is_file():
            try:
                state = read_checkpoint_file(path)
            except ConfigError as error:
                faults.append(str(error))
                continue
            if faults:
                warn(f"{faults[0]} Going on from the one before, at step {state['step']}.")
            return state
    if faults:
        raise ConfigError(f"{faults[0]} Delete {folder / LAST.parent} to start again.")
    return None


def read_checkpoint_file(path: Path) -> dict[str, Any]:
    """One checkpoint, read with torch's restricted unpickler.

    Raises:
        ConfigError: if it is damaged, foreign, or of another version.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from None
    if content.startswith(_MAGIC):
        start = len(_MAGIC) + _DIGEST
        whole = hashlib.sha256(memoryview(content)[start:]).digest() == content[len(_MAGIC) : start]
    else:
        start, whole = 0, _is_older(content)
    if not whole:
        raise ConfigError(f"{path} is damaged: its checksum differs, or it is not one of our checkpoints.")
    try:
        state = torch.load(io.BytesIO(content[start:]), map_location="cpu", weights_only=True)
    except Exception:  # parsers fail in many ways; the words of this one advise to switch its safety off
        raise ConfigError(f"{path} is not one of our checkpoints: it is damaged, or has code in it.") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ConfigError(f"{path} is a checkpoint of another version of the library.")
    if missing := sorted(_NEEDED - state.keys()):
        raise ConfigError(f"{path} is not one of our checkpoints: it has no {missing[0]!r}.")
    return state


def remove_checkpoints(folder: Path) -> None:
    """Delete what a finished training no longer needs."""
    for path in (folder / LAST, folder / PREVIOUS):
        path.unlink(missing_ok=True)


def _is_older(content: bytes) -> bool:
    """Whether this is a whole archive without our line, as earlier versions wrote: its own checksums must fit."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.testzip() is None
    except Exception:  # a damaged archive fails in many ways
        return False


def _save(state: dict[str, Any], file: BinaryIO) -> bytes:
    """Write with ``torch.save`` and return the sha256 of what was written."""
    writer = _Digesting(file)
    try:
        torch.save(state, writer)  # pyright: ignore[reportArgumentType]
    except Exception:
        if writer.fault:  # torch hides why a write failed
            raise writer.fault from None
        raise
    return writer.digest.digest()


class _Digesting:
    """Passes bytes on to a file, computes their digest, and remembers why a write failed."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest = file, hashlib.sha256()
        self.fault: OSError | None = None

    def write(self, content: bytes) -> int:
        try:
            written = self.file.write(content)
        except OSError as error:
            self.fault = error
            raise
        self.digest.update(content)
        return written

    def flush(self) -> None:
        self.file.flush()
