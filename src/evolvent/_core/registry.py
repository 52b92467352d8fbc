"""A dictionary of named entries that answers a wrong name with the nearest right ones."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Generic, TypeVar

from evolvent._core.errors import ConfigError, NameClashError, UnknownNameError, shortened
from evolvent._core.extensions import load_extensions, loading_package

T = TypeVar("T")


class Registry(Generic[T]):
    """Named entries of one kind, those of installed extensions included.

    Every look-up first loads the extensions, once. Code that runs while the library is being imported, when extensions
    cannot be loaded yet, uses :meth:`add` and :meth:`registered` only.

    >>> colours = Registry[int]("colour", advice="There are red and blue.")
    >>> colours.add("red", 1)
    >>> colours.get("red"), list(colours.names("r*"))
    (1, ['red'])
    """

    def __init__(self, kind: str, advice: str = "") -> None:
        self.kind = kind
        self.advice = advice
        self._entries: dict[str, T] = {}
        self._packages: dict[str, str] = {}

    def add(self, name: str, entry: T) -> None:
        """Register an entry.

        Raises:
            NameClashError: if the name is taken.
        """
        package = loading_package() or "evolvent or this program"
        if name in self._entries:
            raise NameClashError(
                f"{self.kind} {name!r} is registered twice: by {self._packages[name]} and by {package}. "
                f"Rename one of them, or uninstall a package."
            )
        self._entries[name] = entry
        self._packages[name] = package

    def registered(self, name: str) -> T:
        """The entry of a name that has been registered so far; loads no extensions."""
        try:
            return self._entries[name]
        except (KeyError, TypeError):  # the latter of what cannot be a name at all, such as a list
            advice = self.advice or f"There are {', '.join(sorted(self._entries))}."
            raise UnknownNameError(self.kind, str(name), self._entries, advice) from None

    def get(self, name: str) -> T:
        """The entry of a name; a wrong name is answered with the nearest right ones."""
        load_extensions()
        return self.registered(name)

    def names(self, pattern: str = "*") -> list[str]:
        """Sorted names that match a shell pattern."""
        if not isinstance(pattern, str):
            raise ConfigError(f"a pattern is a text such as 'resnet*', got {shortened(repr(pattern))}.")
        load_extensions()
        return sorted(fnmatch.filter(self._entries, pattern))

    def __contains__(self, name: object) -> bool:
        load_extensions()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        load_extensions()
        return iter(self._entries)

    def __len__(self) -> int:
        load_extensions()
        return len(self._entries)
