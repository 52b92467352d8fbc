"""Downloads of whole data sets from their own homes."""

from __future__ import annotations

import os
from pathlib import Path

from evolvent._core.errors import DataError
from evolvent.data.catalogue import CatalogueEntry, describe
from evolvent.data.download import Progress, download
from evolvent.data.locations import cache_folder
from evolvent.data.unpack import unpack


def fetch(name: str, folder: str | os.PathLike[str] | None = None, progress: Progress | None = None) -> Path:
    """Download a set, check every file's published checksum, unpack archives; return the folder it lies in.

    Args:
        name: of the set.
        folder: the set goes into a folder named after it in here; by default the cache, where :func:`load` looks.
        progress: called with file name, bytes so far, and bytes in all or None.

    A fetch that broke off goes on where it stopped; one that was complete does nothing.
    """
    entry = describe(name)
    if not entry.downloadable:
        raise DataError(f"{name} is not for download. {entry.advice}")
    target = (Path(folder).expanduser() if folder else cache_folder()) / entry.name
    if _is_complete(entry, target):
        return target
    for what in entry.downloads:
        path = download(what, target, progress)
        if what.unpack:
            unpack(path, target, what.skip)
            path.unlink()
    if not _is_complete(entry, target):
        raise DataError(f"{name} was fetched to {target}, but {entry.layouts[0].wanted} is not in it.")
    return target


def _is_complete(entry: CatalogueEntry, folder: Path) -> bool:
    matches = (layout.find(folder) for layout in entry.layouts)
    return any(match and match.complete for match in matches)
