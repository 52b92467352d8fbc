"""A layout: one way in which the files of a data set may be arranged in a folder, and the reader for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evolvent.data.formats.arrays import Arrays, GraphArrays

Names = tuple[str, ...]

_SHOWN = 3


@dataclass(frozen=True)
class Layout:
    """The files of a data set.

    Args:
        title: its name in messages.
        parts: per file the names it may have, first choice first; a name may be a shell pattern.
        read: takes one path per part, in order.
        folders: where the files may be below the folder that is searched.
        accepts: whether a file whose name matches belongs to this layout.
        telling: the folders in which some of the files imply that the others are missing; by default all. A file named
            ``train`` implies nothing elsewhere.
    """

    title: str
    parts: tuple[Names, ...]
    read: Callable[[Sequence[Path]], Arrays | GraphArrays]
    folders: Names = (".",)
    accepts: Callable[[Path], bool] = Path.exists
    telling: Names | None = None

    def find(self, root: Path) -> Match | None:
        """The most complete match below ``root``, or None if none of the files is there."""
        matches = [match for folder in self.folders if (match := self._match(root, folder))]
        return max(matches, key=lambda match: len(match.files), default=None)

    def _match(self, root: Path, folder: str) -> Match | None:
        found = [self._first(root / folder, names) for names in self.parts]
        missing = tuple(names[0] for names, path in zip(self.parts, found, strict=True) if path is None)
        files = tuple(path for path in found if path)
        counts = files and (not missing or self.telling is None or folder in self.telling)
        return Match(self, root / folder, files, missing) if counts else None

    def _first(self, folder: Path, names: Names) -> Path | None:
        matching = (path for name in names for path in sorted(folder.glob(name)))
        return next((path for path in matching if self.accepts(path)), None)

    @property
    def wanted(self) -> str:
        """The expected files, as text; of many only the first."""
        place = "" if self.folders[0] == "." else f"{self.folders[0]}/"
        names = [names[0] for names in self.parts]
        shown = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], f"{len(names) - _SHOWN + 1} more"]
        return place + " + ".join(shown)


@dataclass(frozen=True)
class Match:
    """The files of a layout that were found in a folder."""

    layout: Layout
    folder: Path
    files: tuple[Path, ...]
    missing: Names

    @property
    def complete(self) -> bool:
        return not self.missing
