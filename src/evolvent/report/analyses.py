"""What ``evolvent analyze`` left in run folders: where it lies and how it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.report.runs import Series

KINDS = ("stability", "cost", "field-of-view", "spectra")


def analysis_path(folder: Path, what: str) -> Path:
    """Where a run folder keeps one kind of analysis."""
    return folder / "analysis" / f"{what}.json"


def read_analyses(series: Series, what: str) -> list[dict[str, Any]]:
    """One kind of analysis of each seed that has it."""
    paths = [analysis_path(record.folder, what) for record in series.records]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def analysed(all_series: Sequence[Series], what: str) -> list[tuple[Series, list[dict[str, Any]]]]:
    """The series that have one kind of analysis, with it."""
    return [(series, found) for series in all_series if (found := read_analyses(series, what))]


def numbers(values: Sequence[float | None]) -> np.ndarray:
    """Values as an array; what JSON could not hold is NaN."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def median(parts: Sequence[dict[str, Any]], pick: Callable[[dict[str, Any]], float | None]) -> float | None:
    """The median over seeds of one number, of those that have it.

    >>> median([{"a": 1.0}, {"a": None}, {"a": 3.0}], lambda part: part["a"])
    2.0
    """
    found = [value for part in parts if (value := pick(part)) is not None]
    return float(np.median(found)) if found else None
