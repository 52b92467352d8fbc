"""The part of a recipe's data section that names your own files, and how they are found again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field

from evolvent._core.checks import check_path
from evolvent._core.errors import ConfigError, DataError, shortened
from evolvent.data import ImageData, PointData, from_npz

if TYPE_CHECKING:
    from evolvent.tasks.task import DataSettings

ORIGINS = ("name", "kind", "folder", "npz", "csv")
"""Keys of a data section that say where the data come from; one of them is given."""
OWN = ("folder", "npz", "csv")
"""Those that name files of the user's own."""
ARCHIVE = "data.npz"
"""File of a run folder with the arrays that were trained on, if they lay in no file."""
FOR_OWN = ("test", "resize", "label")
"""Keys that say more of the user's own files."""


_IN_MEMORY: dict[str, ImageData | PointData] = {}


def _absolute(path: str) -> str:
    if not path.strip():
        raise ValueError("give a path")
    return str(check_path(path, "data").absolute())


OwnPath: TypeAlias = Annotated[str, AfterValidator(_absolute)]
"""A path that is stored in full, so that a run finds its data from any folder."""

TestShare: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


def own_path(data: DataSettings) -> str | None:
    """The path of the user's own data in a section, if it names one."""
    return next((path for key in OWN if (path := getattr(data, key, None))), None)


def check_origin(given: dict[str, Any], allowed: Sequence[str], own_keys: Sequence[str]) -> None:
    """Refuse a section that names no data or several, and keys that only make sense for own files.

    Args:
        given: the keys that have a value.
        allowed: keys of which one is to be given.
        own_keys: keys for own files alone.
    """
    chosen = [key for key in allowed if given.get(key) is not None]
    if len(chosen) != 1:
        found = " and ".join(chosen) or "none"
        raise ValueError(f"give one of {', '.join(allowed)} to say which data, got {found}")
    useless = [key for key in own_keys if given.get(key) is not None and chosen[0] not in OWN]
    if useless:
        raise ValueError(f"{useless[0]} is for your own data; a known set has its own split and size")


def refuse_two_origins(settings: Mapping[str, Any]) -> None:
    """Refuse settings, by dotted keys, that name data in two ways: the later one would silently drop the other."""
    section = settings.get("data")
    named = {key: (section if isinstance(section, dict) else {}).get(key) for key in ORIGINS}
    named |= {key: settings[f"data.{key}"] for key in ORIGINS if f"data.{key}" in settings}
    given = {key: value for key, value in named.items() if value is not None}
    if len(given) > 1:
        told = " and ".join(f"data.{key}={shortened(str(value), 40)}" for key, value in given.items())
        raise ConfigError(f"settings name the data {len(given)} times: {told}. Give one of them.")


def existing(key: str, stated: str, given: Path | None) -> Path:
    """Where own data lie: where the data section says under ``key``, or else where the user says with ``--data``.

    Raises:
        DataError: if there is nothing.
    """
    for place in (Path(stated), given):
        if place is not None and place.exists():
            return place
    raise DataError(f"there is no file or folder {stated}. Give the path of your data: --set data.{key}=PATH.")


def read_archive(stated: str, given: Path | None, test: float | None) -> ImageData | PointData:
    """The data of an archive; see :func:`existing` for the arguments."""
    if stated in _IN_MEMORY and test is None:
        return _IN_MEMORY[stated]
    return from_npz(existing("npz", stated, given), test=test)


@contextmanager
def in_memory(path: Path, data: ImageData | PointData) -> Iterator[None]:
    """Inside the block, the archive of this absolute path means these very data, whether it is written or not."""
    _IN_MEMORY[str(path)] = data
    try:
        yield
    finally:
        _IN_MEMORY.pop(str(path), None)


def moved_with(run: Path, stated: str) -> str:
    """Where own data lie: an archive that a training wrote into its run folder has moved with the folder."""
    whole = run.parent.parent if run.parent.name == "cells" else run
    inside = whole.absolute() / ARCHIVE
    return str(inside) if Path(stated).name == ARCHIVE and inside.exists() else stated


def section_in(run: Path, section: Any) -> Any:
    """A data section, as it was written, whose archive has moved with the run folder."""
    if not isinstance(section, dict) or not isinstance(section.get("npz"), str):
        return section
    return {**section, "npz": moved_with(run, section["npz"])}


def found_again(data: DataSettings, run: Path, given: Path | None) -> DataSettings:
    """The data section of a finished training, with the place where its own data lie now.

    An archive that a training wrote into its run folder moves with it, so that it is looked for there first.

    Args:
        data: as it was recorded.
        run: folder of the training.
        given: where else the user says that the data are.

    Raises:
        DataError: if they are not there any more.
    """
    key = next((key for key in OWN if getattr(data, key, None)), None)
    if key is None:
        return data
    recorded = Path(getattr(data, key))
    places = (Path(moved_with(run, str(recorded))), given)
    found = next((place for place in places if place is not None and place.exists()), None)
    if found is None:
        raise DataError(f"the data are not at {recorded} any more. Put them back, or say where they are with --data.")
    return data.model_copy(update={key: str(found.absolute())})


def with_full_paths(section: Any) -> Any:
    """A data section, as it was written, whose paths are absolute."""
    if not isinstance(section, dict):
        return section
    full = {key: _absolute(section[key]) for key in OWN if isinstance(section.get(key), str) and section[key].strip()}
    return {**section, **full}


def without_other_origin(section: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """What of a data section stays when ``changes`` name data of another kind."""
    named = [key for key in ORIGINS if changes.get(key) is not None]
    if not named or section.get(named[0]) is not None:
        return section
    return {key: value for key, value in section.items() if key not in (*ORIGINS, *FOR_OWN)}
