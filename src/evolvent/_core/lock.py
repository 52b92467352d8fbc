"""A folder for one process at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from evolvent._core.errors import ConfigError, StorageError

LOCK_FILE = ".lock"


@contextmanager
def exclusive(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes out of ``folder`` during the block, on every platform.

    The operating system holds the lock for the process, so that it ends with the process, however that ends. The file
    ``.lock`` stays; alone it means nothing.

    Raises:
        ConfigError: if another process holds the folder; at once, without waiting.
        StorageError: if the folder cannot be made or locked.
    """
    folder = Path(folder)
    lock = FileLock(folder / LOCK_FILE, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise ConfigError(
            f"another process is working in {folder}. Wait until it has finished, or choose another folder with --out."
        ) from None
    except (FileExistsError, NotADirectoryError):
        raise StorageError(f"{folder} is a file, or a part of its path is one. Choose a folder with --out.") from None
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(f"no run can be written to {folder}: {reason}. Choose another folder with --out.") from error
    try:
        yield
    finally:
        lock.release()
