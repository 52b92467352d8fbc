"""Errors a user can act on.

Every message says what was given, what was expected and what to do. The command line prints the message alone and
exits with 2; anything that is not an :class:`EvolventError` is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EvolventError(Exception):
    """Base of all errors that a user can act on."""


class UnknownNameError(EvolventError, KeyError):
    """A name that is in no registry: a network, data set, recipe, paper or configuration key."""

    def __init__(self, kind: str, name: str, known: Iterable[str], advice: str = "") -> None:
        matches = close_matches(name, known)
        guess = f" Did you mean {' or '.join(repr(m) for m in matches)}?" if matches else ""
        super().__init__(f"unknown {kind} {name!r}.{guess}{' ' + advice if advice else ''}")

    def __str__(self) -> str:  # KeyError would print the repr
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:  # the message is made once; a worker process sends it as it is
        return _said_before, (str(self),)


class ConfigError(EvolventError, ValueError):
    """A configuration that cannot be used as it stands."""


class NameClashError(ConfigError):
    """A name that two packages register, so that it could mean either of two things."""


class DataError(EvolventError):
    """A data file that is missing, truncated or of another content than expected."""


class ModelFileError(EvolventError):
    """A saved model that cannot be read: foreign, truncated, or of a kind that is not safe to read."""


class ShapeError(EvolventError, ValueError):
    """A tensor whose shape a network or operator does not take."""


class NonFiniteError(EvolventError, ArithmeticError):
    """A loss or gradient that became NaN or infinite."""


class StorageError(EvolventError, OSError):
    """A file that could not be written, with the state that is left."""


def _said_before(message: str) -> UnknownNameError:
    error = UnknownNameError.__new__(UnknownNameError, message)
    error.args = (message,)
    return error


def close_matches(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names nearest to ``name``, best first, whatever their case.

    >>> close_matches("Resnet4", ["resnet44", "hamiltonian74"])
    ['resnet44']
    """
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.lower(), candidate)
    return [folded[m] for m in difflib.get_close_matches(name.lower(), folded, n=count, cutoff=0.6)]
