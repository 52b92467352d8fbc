"""Whether the first line of a table names its columns, or is the first point."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evolvent._core.errors import DataError, shortened
from evolvent.data.own.parts import warn_of_data

_MISSING = frozenset({"", "-", "--", ".", "?", "#n/a", "<na>", "n/a", "na", "none", "null"})
Lines = Sequence[Sequence[str]]


def names_columns(lines: Lines, what: str, features: Sequence[str] = (), label: str | None = None) -> bool:
    """Whether line 1 names the columns: it has no numbers, the expected names, or a word above numbers.

    Args:
        lines: the cells of all lines.
        what: the table, as messages call it.
        features: names of the columns that a trained network takes; then every column that it has is one of numbers.
        label: name of the column of classes, if the user gave one.

    Raises:
        DataError: if line 1 may be either.
    """
    first = lines[0]
    if not any(map(is_number, first)):
        return (bool(features) and set(features) <= set(first)) or _has_names(lines)
    if features:
        return _has_features(lines, features, what)
    if label is not None and label in first:
        return _has_label(lines, label, what)
    return label not in numbered_columns(len(first)) and _names_numbers(lines, what)


def numbered_columns(count: int) -> list[str]:
    """Names of columns that have none."""
    return [f"x{k}" for k in range(count)]


def as_number(text: str) -> float | None:
    """The number that a cell holds, if it does."""
    try:
        return float(text)
    except ValueError:
        return None


def is_number(cell: str) -> bool:
    """Whether a cell holds a finite number."""
    value = as_number(cell)
    return value is not None and math.isfinite(value)


def may_be_names(cells: Sequence[str]) -> bool:
    """Whether numbers may name columns: they are whole and differ."""
    return all(cell.isdecimal() for cell in cells) and len(set(cells)) == len(cells)


def is_counted(cells: Sequence[str]) -> bool:
    """Whether they are 0, 1, 2, ..., as pandas names the columns of an array."""
    return list(cells) == [str(k) for k in range(len(cells))]


def _is_word(cell: str) -> bool:
    """Whether it is neither a number nor stands for a missing one."""
    return as_number(cell) is None and cell.lower() not in _MISSING


def _has_names(lines: Lines) -> bool:
    """Of a first line without numbers; where a value is missing, a word that comes again is a class."""
    gaps = any(cell and not _is_word(cell) for cell in lines[0])
    return any(map(_is_word, lines[0])) and not (gaps and _has_word_again(lines))


def _has_features(lines: Lines, features: Sequence[str], what: str) -> bool:
    if not set(features) <= set(lines[0]):
        return False
    if any(map(_is_word, features)):
        return True
    wanted = list(filter(is_number, features))
    if _numbers(lines[0])[: len(wanted)] == wanted:
        _warn_of_numbers(lines, what)
        return True
    raise DataError(
        f"{what}: line 1, {_told(lines[0])}, is a point, or names the columns of the training in another order. Begin "
        f"the table with the line {_told(features)}, and write its columns in this order."
    )


def _has_label(lines: Lines, label: str, what: str) -> bool:
    """Whether line 1, which has numbers, has the column of classes by its name and not by chance."""
    below = _below(lines, lines[0].index(label))
    if not is_number(label):
        return label not in below
    if may_be_names(_numbers(lines[0])) and (is_counted(lines[0]) or not any(map(is_number, below))):
        _warn_of_numbers(lines, what)
        return True
    raise DataError(
        f"{what}: line 1, {_told(lines[0])}, has {label!r}, but may be a point. Name the columns by words in a first "
        "line; without one their names, for data.label too, are x0, x1, ..."
    )


def _names_numbers(lines: Lines, what: str) -> bool:
    """Whether a word in line 1, which has numbers, names a column of numbers."""
    if lines[0][0] == "" and is_counted(_numbers(lines[0])):
        return True  # a table of pandas with its row numbers
    words = [k for k, cell in enumerate(lines[0]) if _is_word(cell) and _holds_numbers(_below(lines, k))]
    if not words or _has_word_again(lines):
        return False
    if may_be_names(_numbers(lines[0])):
        if not is_counted(_numbers(lines[0])):
            _warn_of_numbers(lines, what)
        return True
    raise DataError(
        f"{what}: line 1, {_told(lines[0])}, has the word {lines[0][words[0]][:40]!r} above numbers. Mend it if it is "
        "a point; if it names the columns, give data.label, the name of the column of classes."
    )


def _holds_numbers(cells: Sequence[str]) -> bool:
    """Whether all of them are numbers, but for missing ones."""
    return any(map(is_number, cells)) and not any(map(_is_word, cells))


def _has_word_again(lines: Lines) -> bool:
    """Whether a word of line 1 stands in another line of its column, too."""
    return any(_is_word(cell) and cell in _below(lines, k) for k, cell in enumerate(lines[0]))


def _below(lines: Lines, column: int) -> list[str]:
    return [line[column] for line in lines[1:] if column < len(line)]


def _numbers(line: Sequence[str]) -> list[str]:
    return list(filter(is_number, line))


def _warn_of_numbers(lines: Lines, what: str) -> None:
    """Where another line could name the columns as well as the first, its numbers may be a point."""
    if any(may_be_names(_numbers(line)) and _numbers(line) for line in lines[1:]):
        warn_of_data(
            f"{what}: line 1, {_told(lines[0])}, is taken as the names of the columns. If it is a point, write a line "
            "of names before it."
        )


def _told(cells: Sequence[str]) -> str:
    return shortened(",".join(cells), 50)
