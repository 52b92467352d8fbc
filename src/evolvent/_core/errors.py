"""Errors a user can act on.

Every message says what was given, what was expected and what to do. The command line prints the message alone and
exits with 2; anything that is not an :class:`EvolventError` is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 299  # characters of a message


class EvolventError(Exception):
    """Base of all errors that a user can act on. The message is one line; of a very long one the middle is left out."""

    def __init__(self, message: object = "") -> None:
        super().__init__(_one_line(str(message)))


def _one_line(message: str) -> str:
    """At most 299 characters: what was given stands at the beginning of a message, and what to do at its end."""
    line = " ".join(message.split())
    half = (_LONGEST - 5) // 2
    return line if len(line) <= _LONGEST else f"{line[:half]} ... {line[-half:]}"


class UnknownNameError(EvolventError, KeyError):
    """A name that is not registered: of a network, data set, recipe, paper or configuration key."""

    def __init__(self, kind: str, name: str, known: Iterable[str], advice: str = "") -> None:
        matches = close_matches(name, known)
        guess = f" Did you mean {' or '.join(repr(m) for m in matches)}?" if matches else ""
        super().__init__(f"unknown {kind} {shortened(repr(name))}.{guess}{' ' + advice if advice else ''}")

    def __str__(self) -> str:  # KeyError would print the repr
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:  # the message is complete; a worker process sends it as it is
        return _with_message, (str(self),)


class ConfigError(EvolventError, ValueError):
    """A configuration that cannot be used as it stands."""


class NameClashError(ConfigError):
    """A name that two packages register, so that it could mean either of two things."""


class DataError(EvolventError):
    """A data file that is missing, truncated or has unexpected content."""


class ModelFileError(EvolventError):
    """A saved model that cannot be read: truncated, not a model, or not safe to read."""


class ShapeError(EvolventError, ValueError):
    """A tensor of a shape that a network or operator does not accept."""


class NonFiniteError(EvolventError, ArithmeticError):
    """A loss or gradient that became NaN or infinite."""


class PeerError(EvolventError, RuntimeError):
    """Another process of a shared training has died. The command line exits with 1, for its input was right."""


class StorageError(EvolventError, OSError):
    """A file that could not be written; the message says what is left of the earlier one."""


def _with_message(message: str) -> UnknownNameError:
    error = UnknownNameError.__new__(UnknownNameError, message)
    error.args = (message,)
    return error


def shortened(text: str, width: int = 80) -> str:
    """The text on one line, its end left out beyond a width: messages stay readable whatever a user passes.

    >>> shortened("x" * 100, width=10)
    'xxxxxxx...'
    """
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def close_matches(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names nearest to ``name``, best first, ignoring case.

    >>> close_matches("Resnet4", ["resnet44", "hamiltonian74"])
    ['resnet44']
    """
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.lower(), candidate)
    return [folded[m] for m in difflib.get_close_matches(str(name).lower(), folded, n=count, cutoff=0.6)]
