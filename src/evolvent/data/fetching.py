"""Downloads of data sets from their own homes: resumed where they stopped, checked, unpacked."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import Any

from evolvent._core.errors import DataError
from evolvent._core.files import cache_folder, draft_path, remove_drafts
from evolvent._core.lock import exclusive
from evolvent.data.datasets import CatalogueEntry, Download, describe
from evolvent.data.formats.arrays import parsing

DownloadProgress = Callable[[str, int, int | None], None]
"""Called with the file name, the bytes so far and, if known, the total number of bytes."""

_BLOCK = 1 << 18
_TIMEOUT = 60.0


def fetch(name: str, folder: str | os.PathLike[str] | None = None, progress: DownloadProgress | None = None) -> Path:
    """Download a data set, check every file's published checksum, unpack archives; return the set's folder.

    Args:
        name: of the set.
        folder: the set goes into a folder named after it in here; by default the cache, where :func:`load` looks.
        progress: called with file name, bytes so far, and total bytes or None.

    An interrupted fetch continues where it stopped; a complete one does nothing.
    """
    entry = describe(name)
    if not entry.downloadable:
        raise DataError(f"{name} cannot be downloaded. {entry.advice}")
    target = (Path(folder).expanduser() if folder else cache_folder()) / entry.name
    if _is_complete(entry, target):
        return target
    with exclusive(target):
        remove_drafts(target)
        for what in entry.downloads:
            _fetch_one(what, target, progress)
    if not _is_complete(entry, target):
        raise DataError(f"{name} was fetched to {target}, but {entry.layouts[0].wanted} is not in it.")
    return target


def _is_complete(entry: CatalogueEntry, folder: Path) -> bool:
    matches = (layout.find(folder) for layout in entry.layouts)
    return any(match and match.complete for match in matches)


def _fetch_one(what: Download, target: Path, progress: DownloadProgress | None) -> None:
    path = download(what, target, progress)
    if what.unpack:
        unpack(path, target, what.skip)
        path.unlink()


def download(what: Download, folder: Path, progress: DownloadProgress | None = None) -> Path:
    """Fetch one file into ``folder``, through a ``.part`` beside it; a file with the right checksum is kept."""
    target = folder / what.filename
    if target.is_file() and not checksum_fault(target, what.checksum):
        return target
    part = target.with_name(f"{target.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _receive(what, part, progress)
    except (HTTPException, OSError) as error:
        raise DataError(_interrupted(what, part, error)) from error
    fault = checksum_fault(part, what.checksum)
    if fault:
        part.unlink()
        raise DataError(
            f"{what.url} is not the published file and was discarded: {fault}. "
            f"Try again later, or place the file as {target}."
        )
    os.replace(part, target)
    return target


def checksum_fault(path: Path, checksum: str) -> str:
    """Empty if the file has the checksum ``algorithm:digits``, else what was expected and found."""
    algorithm, expected = checksum.split(":")
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    size = path.stat().st_size
    return "" if found == expected else f"{algorithm} {expected} expected, found {found} ({size:,} bytes)"


def _receive(what: Download, part: Path, progress: DownloadProgress | None) -> None:
    present = part.stat().st_size if part.is_file() else 0
    with _open(what.url, present) as response:
        if present and response.status != 206:  # the server sends the whole file again
            present = 0
        length = response.headers.get("Content-Length")
        total = present + int(length) if length else what.size
        with open(part, "ab" if present else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                present += len(block)
                if progress:
                    progress(what.filename, present, total)
    if total is not None and present < total:
        raise ConnectionError(f"the connection ended after {present:,} of {total:,} bytes")


def _open(url: str, start: int) -> Any:
    """The response; where the server refuses to resume, because the part is complete or too long, all of the file."""
    headers = {"User-Agent": "evolvent"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
        return response
    except urllib.error.HTTPError as error:
        error.close()
        if start and error.code == 416:
            return _open(url, 0)
        raise


def _interrupted(what: Download, part: Path, error: Exception) -> str:
    kept = f"; {part.stat().st_size:,} bytes are kept, and the next fetch continues there" if part.is_file() else ""
    reason = " ".join(str(error).split())[:120]
    return f"{what.url} could not be fetched: {reason}{kept}. Check the connection and try again."


def unpack(archive: Path, folder: Path, skip: tuple[str, ...] = ()) -> None:
    """Unpack a tar or zip into ``folder`` without the members named in ``skip``; nothing is written outside.

    Members are unpacked in a draft folder and moved when all of them are there.
    """
    draft = draft_path(folder)
    draft.mkdir(parents=True)
    try:
        with parsing(archive):
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
