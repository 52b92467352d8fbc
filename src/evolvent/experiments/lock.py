"""One run per folder: who may write, and how a second run is kept out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evolvent._core.errors import ConfigError
from evolvent._core.files import remove_drafts
from evolvent._core.launchers import is_main_process
from evolvent._core.lock import exclusive
from evolvent.experiments.recipe import Recipe, StudyRecipe, differences

_NAMED = 4  # settings that differ


def refuse_other_run(
    earlier: Recipe | StudyRecipe | None, recipe: Recipe | StudyRecipe, folder: Path, resume: bool
) -> None:
    """A folder holds one run, which can be continued and is never mixed with another.

    Args:
        earlier: the recipe that the folder holds, or None.
        recipe: that to be run.
    """
    if earlier is None:
        return
    if not resume:
        raise ConfigError(
            f"{folder} holds a run already. Continue it with --resume (resume=True in Python), or choose another "
            "folder with --out (out=...)."
        )
    moved = earlier.moved_to(folder) if isinstance(earlier, Recipe) else earlier
    if recipe.identity not in (earlier.identity, moved.identity):
        raise ConfigError(
            f"{folder} holds a run with other settings: its recipe.yaml differs in "
            f"{named_differences(moved.given, recipe.given)}. Choose another folder with --out (out=...)."
        )


def named_differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The first few settings that differ, by their dotted keys."""
    keys = list(differences(before, now))
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second run out of the folder, and delete what killed runs left half written in it.

    The lock ends with the process, however that ends.
    """
    if not is_main_process():
        yield
        return
    with exclusive(folder):
        remove_drafts(folder)
        yield
