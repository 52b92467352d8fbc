"""What predictors have in common: the file beside the model, and the paths that they are given."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from evolvent._core.checks import check_path
from evolvent._core.errors import DataError
from evolvent._core.seals import write_sealed

FILE = "predictor.json"
FORMAT = 1

Tell: TypeAlias = Callable[[float], None]


def store_form(folder: Path, inputs: str, **values: Any) -> None:
    """Write beside a model what its network takes."""
    write_sealed(folder / FILE, {"format": FORMAT, "inputs": inputs, **values})


class Predictor(ABC):
    """What predictors of images and of points do with paths."""

    suffixes: tuple[str, ...]

    def files(self, paths: Iterable[str | os.PathLike[str]]) -> list[str]:
        """The files themselves, and those below folders by name."""
        return [str(file) for path in paths for file in self._below(check_path(path, "a predictor", "a file"))]

    def _files_of(self, inputs: Any) -> list[str] | None:
        """The files that are meant, or None if the inputs are not paths."""
        if isinstance(inputs, (str, os.PathLike)):
            inputs = [inputs]
        are_paths = isinstance(inputs, (list, tuple)) and all(isinstance(one, (str, os.PathLike)) for one in inputs)
        return self.files(inputs) if are_paths else None

    @abstractmethod
    def _is_answer(self, file: Path) -> bool:
        """Whether a prediction wrote a file, so that it is passed over where folders are searched."""

    def _below(self, path: Path) -> Iterable[Path]:
        if not path.is_dir():
            return [path]
        named = [file for file in _files_below(path) if file.suffix.lower() in self.suffixes and file.is_file()]
        found = sorted(file for file in named if not self._is_answer(file))
        if not found:
            but = " but earlier answers" if named else ""
            raise DataError(f"{path} has no {' or '.join(self.suffixes)} files{but}. Give another folder, or files.")
        return found


def _files_below(folder: Path) -> Iterator[Path]:
    """All files but hidden ones, also behind links to folders, unless these lead back to where the search came from."""
    ways: dict[str, set[str]] = {}
    for place, folders, names in os.walk(folder, followlinks=True):
        way = ways.pop(place, set()) | {os.path.realpath(place)}
        shown = (name for name in folders if not _is_hidden(name))
        folders[:] = [name for name in shown if os.path.realpath(os.path.join(place, name)) not in way]
        ways |= {os.path.join(place, name): way for name in folders}
        yield from (Path(place) / name for name in names if not _is_hidden(name))


def _is_hidden(name: str) -> bool:
    """Whether a system or a program keeps it for itself, such as ``__MACOSX`` and ``.ipynb_checkpoints``."""
    return name.startswith((".", "__"))
