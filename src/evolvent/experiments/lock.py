"""One run per folder: who may write, and how a second run is kept out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evolvent._core.errors import ConfigError
from evolvent._core.files import remove_drafts
from evolvent._core.launchers import is_main_process
from evolvent._core.lock import exclusive


def refuse_other_run(earlier: str | None, identity: str, folder: Path, resume: bool) -> None:
    """A folder holds one run, which can be continued and is never mixed with another.

    Args:
        earlier: identity of the recipe that the folder holds, or None.
        identity: that of the recipe to be run.
    """
    if earlier is None:
        return
    if not resume:
        raise ConfigError(f"{folder} holds a run already. Add --resume to continue it, or choose another --out.")
    if earlier != identity:
        raise ConfigError(f"{folder} holds a run with other settings (see its recipe.yaml). Choose another --out.")


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
