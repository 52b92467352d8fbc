"""Installed packages that extend the library.

A package declares an entry point of the group ``evolvent.extensions``::

    [project.entry-points."evolvent.extensions"]
    my-networks = "my_package.networks"         # a module: importing it registers
    my-data = "my_package.data:register"        # a function: called without arguments

It registers networks, operator kinds, data sets and so on as the library itself does. Extensions are loaded once, at
the first look-up in any registry, so that every command and recipe knows their names.
"""

from __future__ import annotations

import threading
import warnings
from importlib.metadata import EntryPoint, entry_points

from evolvent._core.errors import NameClashError

GROUP = "evolvent.extensions"


class ExtensionWarning(UserWarning):
    """An installed extension that could not be loaded."""


class _Extensions:
    """What has been loaded so far. The lock is reentrant: an extension looks names up while it is being loaded."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.started = False
        self.package: str | None = None
        self.clash: NameClashError | None = None


_state = _Extensions()


def load_extensions() -> None:
    """Load every installed extension, the first time only.

    One that fails is left out with an :class:`ExtensionWarning`. One that registers a name which is already taken is an
    error at every call, since the name could mean either of two things.

    Raises:
        NameClashError: says which name, and which two packages registered it.
    """
    with _state.lock:
        if not _state.started:
            _state.started = True
            for entry in sorted(entry_points(group=GROUP), key=lambda entry: (_package(entry), entry.name)):
                _load(entry)
        if _state.clash is not None and _state.package is None:
            raise _state.clash.with_traceback(None)


def loading_package() -> str | None:
    """The package whose extension is being loaded, or None."""
    return _state.package


def _load(entry: EntryPoint) -> None:
    _state.package = _package(entry)
    try:
        found = entry.load()
        if callable(found):
            found()
    except NameClashError as clash:
        _state.clash = _state.clash or clash
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
        warnings.warn(
            f"the extension {entry.name!r} of the package {_state.package} was not loaded. {reason}",
            ExtensionWarning,
            stacklevel=5,
        )
    finally:
        _state.package = None


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value.partition(":")[0]
