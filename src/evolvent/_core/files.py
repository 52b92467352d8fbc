"""Files that are either whole or not there: write beside the target, flush to disk, rename."""

from __future__ import annotations

import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evolvent._core.errors import StorageError


@contextmanager
def atomic_path(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; what stands there at the end of the block replaces ``target`` in one step.

    If the block fails, ``target`` keeps what it had. A full disk is reported as :class:`StorageError`.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as path:
    ...     _ = path.write_text("whole")
    >>> (folder / "a.txt").read_text(), len(list(folder.iterdir()))
    ('whole', 1)
    """
    target = Path(target)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        _flush(draft)
        os.replace(draft, target)
        _flush(target.parent)
    except OSError as error:
        raise _explained(error, target) from error
    finally:
        with suppress(NotADirectoryError):
            draft.unlink(missing_ok=True)


def write_text(target: str | os.PathLike[str], text: str) -> None:
    """Write a whole text file or none."""
    with atomic_path(target) as path:
        path.write_text(text, encoding="utf-8")


def write_bytes(target: str | os.PathLike[str], content: bytes) -> None:
    """Write a whole binary file or none."""
    with atomic_path(target) as path:
        path.write_bytes(content)


def sha256(path: str | os.PathLike[str]) -> str:
    """Hexadecimal sha256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    """Push a file's or folder's content to the disk, so that a power cut after the rename finds it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explained(error: OSError, target: Path) -> OSError:
    if isinstance(error, StorageError):
        return error
    kept = f"the earlier {target.name} is intact" if target.exists() else f"no {target.name} was written"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageError(f"no space left while writing {target}; {kept}. Free some space and go on with --resume.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError(f"no permission to write {target}; {kept}. Choose another folder with --out.")
    if isinstance(error, (FileExistsError, NotADirectoryError, IsADirectoryError)):
        return StorageError(f"cannot write {target}: it is a folder, or a part of its path is a file.")
    return error
