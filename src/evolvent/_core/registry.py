"""A dictionary of named things that answers a wrong name with the nearest right ones."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Generic, TypeVar

from evolvent._core.errors import UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Named entries of one kind.

    >>> colours = Registry[int]("colour", advice="Any of red and blue.")
    >>> colours.add("red", 1)
    >>> colours.get("red"), list(colours.names("r*"))
    (1, ['red'])
    """

    def __init__(self, kind: str, advice: str = "") -> None:
        self.kind = kind
        self.advice = advice
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> None:
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._entries[name] = entry

    def get(self, name: str) -> T:
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownNameError(self.kind, name, self._entries, self.advice) from None

    def names(self, pattern: str = "*") -> list[str]:
        """Sorted names that match a shell pattern."""
        return sorted(fnmatch.filter(self._entries, pattern))

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
