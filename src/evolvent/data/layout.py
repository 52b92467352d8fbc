"""A layout: one way in which the files of a set may lie in a folder, and the reader for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evolvent.data.formats.arrays import Arrays

Names = tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """Files that make a set.

    Args:
        title: what a user calls it.
        parts: per file the names it may have, first choice first; a name may be a shell pattern.
        read: takes one path per part, in order.
        folders: where the files may lie below the folder that is searched.
        accepts: whether a file that fits a pattern is of this layout at all.
        telling: the folders in which some of the files mean that the others are missing; by default all. Names such as
            ``train`` mean nothing elsewhere.
    """

    title: str
    parts: tuple[Names, ...]
    read: Callable[[Sequence[Path]], Arrays]
    folders: Names = (".",)
    accepts: Callable[[Path], bool] = Path.exists
    telling: Names | None = None

    def find(self, root: Path) -> Match | None:
        """The most complete match below ``root``, or None if not one file is there."""
        matches = [match for folder in self.folders if (match := self._match(root, folder))]
        return max(matches, key=lambda match: len(match.files), default=None)

    def _match(self, root: Path, folder: str) -> Match | None:
        found = [self._first(root / folder, names) for names in self.parts]
        missing = tuple(names[0] for names, path in zip(self.parts, found, strict=True) if path is None)
        files = tuple(path for path in found if path)
        counts = files and (not missing or self.telling is None or folder in self.telling)
        return Match(self, root / folder, files, missing) if counts else None

    def _first(self, folder: Path, names: Names) -> Path | None:
        fitting = (path for name in names for path in sorted(folder.glob(name)))
        return next((path for path in fitting if self.accepts(path)), None)

    @property
    def wanted(self) -> str:
        """What is looked for, in words."""
        place = "" if self.folders[0] == "." else f"{self.folders[0]}/"
        return place + " + ".join(names[0] for names in self.parts)


@dataclass(frozen=True)
class Match:
    """What of a layout was found in a folder."""

    layout: Layout
    folder: Path
    files: tuple[Path, ...]
    missing: Names

    @property
    def complete(self) -> bool:
        return not self.missing
