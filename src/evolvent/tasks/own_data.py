"""The part of a recipe's data section that names your own files, and how they are found again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field

from evolvent._core.errors import DataError

ORIGINS = ("name", "kind", "folder", "npz", "csv")
"""Keys of a data section that say where the data come from; one of them is given."""
OWN = ("folder", "npz", "csv")
"""Those that name files of the user's own."""
FOR_OWN = ("test", "resize", "label")
"""Keys that say more of the user's own files."""


def _absolute(path: str) -> str:
    if not path.strip():
        raise ValueError("give a path")
    return str(Path(path).expanduser().absolute())


OwnPath: TypeAlias = Annotated[str, AfterValidator(_absolute)]
"""A path that is stored in full, so that a run finds its data from any folder."""

TestShare: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


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


def found_again(recorded: str, given: Path | None) -> Path:
    """Where own data lie now: where they were recorded, or else where the user says.

    Raises:
        DataError: if they are not there any more.
    """
    place = Path(recorded)
    if place.exists():
        return place
    if given is not None and given.exists():
        return given
    raise DataError(f"the data are not at {place} any more. Put them back, or say where they are with --data.")


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
