"""Archives to folders: a tar or zip is unpacked beside its place and moved there whole."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import reading


def unpack(archive: Path, folder: Path, skip: tuple[str, ...] = ()) -> None:
    """Unpack ``archive`` into ``folder`` without the members named in ``skip``; nothing may land outside."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
    try:
        with reading(archive):
            _extract(archive, draft, skip)
        for path in sorted(draft.iterdir()):
            _move(path, folder / path.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _extract(archive: Path, draft: Path, skip: tuple[str, ...]) -> None:
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            wanted = [member for member in tar.getmembers() if PurePosixPath(member.name).name not in skip]
            tar.extractall(draft, members=wanted, filter="data")
    elif zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            wanted = [name for name in zipped.namelist() if PurePosixPath(name).name not in skip]
            zipped.extractall(draft, members=wanted)
    else:
        raise DataError(f"{archive} is neither a tar nor a zip archive.")


def _move(source: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    os.replace(source, target)
