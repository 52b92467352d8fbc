"""Tables of points with a class each: ``.csv`` files."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evolvent._core.checks import check_path
from evolvent._core.errors import DataError, UnknownNameError
from evolvent.data.formats.arrays import parsing
from evolvent.data.own.arrays import LARGEST, from_arrays
from evolvent.data.own.header import as_number, is_counted, is_number, may_be_names, names_columns, numbered_columns
from evolvent.data.own.parts import warn_of_data
from evolvent.data.own.point_set import PointData


@dataclass(frozen=True)
class Table:
    """The cells of a CSV file as text, with a name for each column."""

    path: Path
    columns: list[str]
    rows: list[list[str]]
    first_line: int  # of the file, in which the first row stands

    @property
    def named(self) -> bool:
        """Whether the file itself names its columns."""
        return self.first_line > 1

    def numbers(self, columns: Sequence[str]) -> np.ndarray:
        """Some columns as float32 (N, columns)."""
        places = [self.place(name) for name in columns]
        found = np.empty((len(self.rows), len(places)), np.float32)
        for k, row in enumerate(self.rows):
            for j, place in enumerate(places):
                found[k, j] = self._number(k, row[place], columns[j])
        return found

    def place(self, name: str) -> int:
        """Where a column stands."""
        if name not in self.columns:
            advice = "Set data.label." if self.named else "The table names none; they are x0, x1, ..."
            raise UnknownNameError(f"column of {self.path.name}", name, self.columns, advice)
        return self.columns.index(name)

    def _number(self, row: int, text: str, column: str) -> float:
        value = as_number(text)
        if value is None or not abs(value) <= LARGEST:
            line = self.first_line + row
            raise DataError(
                f"{self.path}, line {line}: {text[:40]!r} in column {column!r} is not a finite number. Mend or delete "
                "the line; the column of the classes is data.label."
            )
        return value


def from_csv(path: str | os.PathLike[str], *, label: str | int | None = None, test: float | None = None) -> PointData:
    """Your own table of points, one in each line, as data for trainings.

    Args:
        path: a ``.csv`` file of numbers and one column of classes. The first line names the columns if it has no
            numbers, or ``label``, or a word above a column of numbers; numbers as names are whole.
        label: name of the column of classes; the last one unless given.
        test: the share of rows for testing, 0.2 unless given.
    """
    label = None if label is None else str(label)
    table = read_table(path, label=label)
    chosen = table.columns[-1] if label is None else label
    place = table.place(chosen)
    if "" in table.columns:
        column = 1 + table.columns.index("")
        raise DataError(f"{table.path}: column {column} has no name. If it numbers the rows, delete it; else name it.")
    features = [name for name in table.columns if name != chosen]
    if not features:
        raise DataError(f"{table.path} has one column; at least one of numbers and one of classes are expected.")
    words = [row[place] for row in table.rows]
    if "" in words:
        line = table.first_line + words.index("")
        raise DataError(f"{table.path}, line {line}: column {chosen!r} names no class. Write one, or delete the line.")
    if label is None:
        _warn_of_lone_class(table, place)
    whole = [as_number(word) for word in words]
    labels = np.array(words if any(v is None or v % 1 for v in whole) else [int(v) for v in whole if v is not None])
    found = from_arrays(table.numbers(features), labels, columns=features, test=test, name=table.path.stem)
    assert isinstance(found, PointData)
    section = {"csv": str(table.path), "label": label} | ({} if test is None else {"test": test})
    source = found.source.replace("arrays in memory", f"{table.path.name} in {table.path.parent}")
    return replace(found, section=section, source=source)


def read_table(path: str | os.PathLike[str], features: Sequence[str] = (), label: str | None = None) -> Table:
    """The cells of a file with commas, semicolons or tabs between columns; without names these are x0, x1, ...

    Args:
        path: of the file.
        features: names of the columns that a trained network takes.
        label: name of the column of classes, if the user gave one.
    """
    path = check_path(path, "ev.data.from_csv", "a table").absolute()
    if not path.is_file():
        raise DataError(f"there is no table {path}. Give the path of a .csv file.")
    with parsing(path), path.open(newline="", encoding="utf-8-sig") as file:
        separator = _separator(file.readline())
        file.seek(0)
        lines = [[cell.strip() for cell in row] for row in csv.reader(file, delimiter=separator) if row]
    if not lines:
        raise DataError(f"{path} is empty. Write one point in each line.")
    named = names_columns(lines, path.name, features, label)
    columns = lines[0] if named else numbered_columns(len(lines[0]))
    rows = lines[1:] if named else lines
    if not rows or len(set(columns)) != len(columns):
        raise DataError(f"{path} must have lines of points, and columns of different names.")
    for number, row in enumerate(rows, start=2 if named else 1):
        if len(row) != len(columns):
            raise DataError(f"{path}, line {number}: {len(columns)} values are expected, found {len(row)}.")
    return Table(path, columns, rows, 2 if named else 1)


def _warn_of_lone_class(table: Table, place: int) -> None:
    """Say that line 1, read as a point, may name the columns: its class is unlike all others, beside whole numbers."""
    if table.named:
        return
    first, *others = table.rows
    name, rest = first[place], first[:place] + first[place + 1 :]
    below = [row[place] for row in others]
    unlike = is_counted(first) or not any(map(is_number, below))
    if may_be_names(rest) and unlike and name not in below:
        warn_of_data(
            f"{table.path.name}: the class {name[:40]!r} occurs in line 1 only. If this line names the columns, say so "
            f"by data.label={name[:40]}."
        )


def _separator(line: str) -> str:
    """Whichever it has most."""
    return max(",;\t", key=line.count)
