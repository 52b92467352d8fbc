"""One file over HTTP: into a ``.part`` beside the target, resumed where it broke off, checked, renamed."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from evolvent._core.errors import DataError
from evolvent.data.catalogue import Download

Progress = Callable[[str, int, int | None], None]
"""Called with the file name, the bytes so far and, if known, the bytes in all."""

_BLOCK = 1 << 18
_TIMEOUT = 60.0


def download(what: Download, folder: Path, progress: Progress | None = None) -> Path:
    """Fetch ``what`` into ``folder``; a file of the right checksum that is already there is kept."""
    target = folder / what.filename
    if target.is_file() and not checksum_fault(target, what.checksum):
        return target
    part = target.with_name(f"{target.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _receive(what, part, progress)
    except (HTTPException, OSError) as error:
        raise DataError(_broken_off(what, part, error)) from error
    fault = checksum_fault(part, what.checksum)
    if fault:
        part.unlink()
        raise DataError(f"{what.url} is not the published file: {fault}; it was discarded. Try again later, or get the "
                        f"file elsewhere and place it as {target}.")
    os.replace(part, target)
    return target


def checksum_fault(path: Path, checksum: str) -> str:
    """Empty if the file has the checksum ``algorithm:digits``, else what was expected and found."""
    algorithm, expected = checksum.split(":")
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    size = path.stat().st_size
    return "" if found == expected else f"{algorithm} {expected} expected, found {found} ({size:,} bytes)"


def _receive(what: Download, part: Path, progress: Progress | None) -> None:
    present = part.stat().st_size if part.is_file() else 0
    with _open(what.url, present) as response:
        if present and response.status != 206:  # the server sends all of it again
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
    """The response; a resume the server cannot satisfy, because all is there or the part is too long, starts anew."""
    headers = {"User-Agent": "evolvent"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
        return response
    except urllib.error.HTTPError as error:
        error.close()
        if start and error.code == 416:
            return _open(url, 0)
        raise


def _broken_off(what: Download, part: Path, error: Exception) -> str:
    kept = f"; {part.stat().st_size:,} bytes are kept and the next fetch goes on from there" if part.is_file() else ""
    return f"{what.url} could not be fetched: {' '.join(str(error).split())}{kept}. Check the connection and try again."
