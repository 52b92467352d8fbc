"""What a study finds: an answer in one sentence, and the tables, curves and animations behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Tell = Callable[[float, str], None]
"""Called with the share of the work that is done and a few words on what is being done."""

Value = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows of text and numbers; the first column names the row, and None stands for what was not measured."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


@dataclass(frozen=True)
class Curve:
    """One plot with a line for each series; points that are not finite are left out."""

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Regions:
    """Which class a network gives to each point of a grid over a part of the plane.

    Attributes:
        classes: (rows, columns); the first row is the lowest.
        extent: left, right, bottom and top.
    """

    classes: np.ndarray
    extent: tuple[float, float, float, float]


@dataclass(frozen=True)
class Animation:
    """Points of the plane that move.

    Attributes:
        frames: (T, N, 2) positions through time.
        labels: (N,) classes.
        regions: decision regions in the plane of the first frame.
    """

    title: str
    frames: np.ndarray
    labels: np.ndarray
    regions: Regions | None = None


@dataclass(frozen=True)
class StudyResult:
    """A study's outcome; the answer is made from the figures."""

    answer: str
    tables: list[Table] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    animations: list[Animation] = field(default_factory=list)
