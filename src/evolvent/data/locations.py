"""Where a data set is: the given folder, the folders of installed packages, the cache of downloads, in this order."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from evolvent._core.checks import check_path
from evolvent._core.errors import DataError
from evolvent._core.files import cache_folder
from evolvent.data.datasets import CatalogueEntry, Shipped, describe
from evolvent.data.layout import Match

FOLDER_VARIABLE = "EVOLVENT_DATA"


@dataclass(frozen=True)
class Location:
    """The files of a set; ``origin`` says how they were found."""

    entry: CatalogueEntry
    match: Match
    origin: str

    @property
    def files(self) -> tuple[Path, ...]:
        return self.match.files


@dataclass(frozen=True)
class _Place:
    """Folders that are searched together."""

    origin: str
    roots: tuple[Path, ...]


def locate(name: str, folder: str | os.PathLike[str] | None = None) -> Location:
    """Find the files of a data set; nothing is downloaded.

    Args:
        name: of the set.
        folder: contains the set or a folder named after it; by default the value of ``EVOLVENT_DATA``.

    Raises:
        DataError: says which files were expected, where, and how to get them.
    """
    entry = describe(name)
    places = _places(entry, folder)
    for place in places:
        match = _best_match(entry, place)
        if match and match.complete:
            return Location(entry, match, place.origin)
        if match:
            missing = ", ".join(match.missing)
            raise DataError(f"{name} is incomplete: {match.folder} lacks {missing}. {entry.advice}")
    raise DataError(_not_found(entry, places))


def _places(entry: CatalogueEntry, folder: str | os.PathLike[str] | None) -> list[_Place]:
    places = []
    given = folder or os.environ.get(FOLDER_VARIABLE)
    if given:
        root = check_path(given, "the data folder")
        if folder and not root.is_dir():
            raise DataError(f"the data folder {root} does not exist; give an existing folder or none.")
        places.append(_Place(str(root), _roots(root, entry.name)))
    places += [_Place(shipped.title, _shipped_roots(shipped)) for shipped in entry.shipped]
    return [*places, _Place("cache", _roots(cache_folder(), entry.name))]


def _roots(folder: Path, name: str) -> tuple[Path, ...]:
    """The folder, after those in it that are named after the set, ignoring case, ``-`` and ``_``."""
    wanted = _letters(name)
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    return (*(path for path in inside if _is_named(path, wanted)), folder)


def _is_named(path: Path, wanted: str) -> bool:
    """A size may follow: ``tiny_imagenet32`` is named after tiny-imagenet, but ``cifar100`` not after cifar10."""
    found = _letters(path.name)
    return path.is_dir() and (found == wanted or (found.rstrip("0123456789") == wanted and not wanted[-1].isdigit()))


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _shipped_roots(shipped: Shipped) -> tuple[Path, ...]:
    if not shipped.package:
        return (Path(shipped.folder),)
    spec = importlib.util.find_spec(shipped.package)  # finds the folder without importing the package
    locations = spec.submodule_search_locations if spec else None
    return tuple(Path(location) / shipped.folder for location in locations or ())


def _best_match(entry: CatalogueEntry, place: _Place) -> Match | None:
    """A complete match if there is one, else the most complete."""
    matches = [match for root in place.roots for layout in entry.layouts if (match := layout.find(root))]
    return max(matches, key=lambda match: (match.complete, len(match.files)), default=None)


def _not_found(entry: CatalogueEntry, places: list[_Place]) -> str:
    searched = [str(root) for place in places for root in place.roots[-1:]]
    uninstalled = [place.origin for place in places if not place.roots]
    absent = f" ({', '.join(uninstalled)} not installed)" if uninstalled else ""
    return f"{entry.name} was not found in {', '.join(searched)}{absent}. {entry.advice}"
