"""Files that are either complete or absent: write a draft beside the target, flush it to disk, rename it.

A process that is killed leaves its drafts behind. Their names are used for nothing else, so that :func:`remove_drafts`
can delete them safely.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from evolvent._core.errors import StorageError
from evolvent._core.plain import plain

_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTORS = ("/dev/fd", "/proc/self/fd")
_DRAFT = re.compile(r"\.evolvent-[0-9a-f]{32}\.draft")


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; the file written there replaces ``target`` in one step at the end of the block.

    If the block fails, ``target`` keeps its content. Pipes, devices and open streams, such as ``/dev/stdout``, are not
    replaced but written to. What the system refuses, such as a full disk, is reported as :class:`StorageError`.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as path:
    ...     _ = path.write_text("complete")
    >>> (folder / "a.txt").read_text(), len(list(folder.iterdir()))
    ('complete', 1)
    """
    target = Path(target)
    if (stream := _stream(target)) is not None:
        with storing(target), _copied_to(stream) as draft:
            yield draft
        return
    if _exists(target) and not (target.is_file() or target.is_dir()):  # a pipe or a device
        with storing(target):
            yield target
        return
    draft = draft_path(target.parent)
    try:
        with storing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            yield draft
            _flush_file(draft)
            os.replace(draft, target)
            _flush_folder(target.parent)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@contextmanager
def storing(target: Path) -> Iterator[None]:
    """Within the block what the system refuses becomes a :class:`StorageError` that names the target."""
    try:
        yield
    except ConnectionError:  # of what was to be written, not of the disk
        raise
    except OSError as error:
        raise _explained(error, target) from error


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write a complete text file or none."""
    with atomic_path(target) as path:
        path.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(target: str | os.PathLike[str], content: bytes) -> None:
    """Write a complete binary file or none."""
    with atomic_path(target) as path:
        path.write_bytes(content)


def write_json(target: str | os.PathLike[str], value: Any, indent: int | None = 2) -> None:
    """Write ``value`` as JSON that every parser reads: numbers that are not finite become null, see :func:`plain`."""
    write_text(target, json.dumps(plain(value), indent=indent, allow_nan=False, ensure_ascii=False) + "\n")


def sha256(path: str | os.PathLike[str]) -> str:
    """Hexadecimal sha256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def draft_path(folder: str | os.PathLike[str]) -> Path:
    """A new path in ``folder`` for a file or folder that will be renamed when it is complete."""
    return Path(folder) / f".evolvent-{uuid.uuid4().hex}.draft"


def remove_drafts(folder: str | os.PathLike[str]) -> int:
    """Delete the drafts that killed processes left in ``folder`` and below, and return how many there were.

    Call it only while holding the folder's lock: nothing marks a draft that another process is still writing.
    """
    count = 0
    for parent, folders, names in os.walk(folder):
        for name in filter(_DRAFT.fullmatch, [*folders, *names]):
            _remove(Path(parent) / name)
            count += 1
        folders[:] = [name for name in folders if not _DRAFT.fullmatch(name)]
    return count


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _stream(target: Path) -> int | None:
    """The descriptor of the open stream that a path names; None if it names none."""
    name = os.path.abspath(target)
    folder, number = os.path.split(name)
    return int(number) if folder in _DESCRIPTORS and number.isdigit() else _STREAMS.get(name)


@contextmanager
def _copied_to(stream: int) -> Iterator[Path]:
    """A path to write to, whose content follows what the stream has; to open its name again would be to begin anew."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "draft"
        yield draft
        for own in (sys.stdout, sys.stderr):
            own.flush()
        with os.fdopen(os.dup(stream), "wb") as file:
            file.write(draft.read_bytes())


def _flush_file(path: Path) -> None:
    """Push a file's content to the disk, so that a power cut after the rename finds it."""
    with open(path, "r+b") as file:  # Windows flushes only files that are open for writing
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Push a rename to the disk, where the system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders and needs no flush of them
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explained(error: OSError, target: Path) -> StorageError:
    if isinstance(error, StorageError):
        return error
    kept = f"the earlier {target.name} is intact" if _exists(target) else f"no {target.name} was written"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageError(f"no space left while writing {target}; {kept}. Free some space, then add --resume.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError(f"no permission to write {target}; {kept}. Choose another folder with --out.")
    if isinstance(error, (FileExistsError, NotADirectoryError, IsADirectoryError)):
        return StorageError(f"cannot write {target}: it is a folder, or a part of its path is a file.")
    return StorageError(f"cannot write {target}: {error.strerror or error}; {kept}. Choose another place with --out.")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def cache_folder() -> Path:
    """Where downloads and kernels are kept: ``EVOLVENT_CACHE``, else ``evolvent`` in the platform's cache folder."""
    if os.environ.get("EVOLVENT_CACHE"):
        return Path(os.environ["EVOLVENT_CACHE"]).expanduser()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "evolvent"
