"""What a task measures and finds: figures with their units, and the tables, curves and pictures of a report.

These are plain records of numbers, text and arrays. A task fills them; run folders store them; the report and the
command line draw them. So a new task needs no HTML of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np

Unit: TypeAlias = Literal["share", "number", "count", "seconds", "bytes"]
Value: TypeAlias = str | int | float | None

Tell: TypeAlias = Callable[[float, str], None]
"""Called with the share of the work that is done and a few words on what is being done."""


@dataclass(frozen=True)
class Figure:
    """A number that a task measures.

    Attributes:
        name: key of the number, as in ``metrics.csv``.
        title: what people call it.
        unit: ``"share"`` is a share of one, written in percent.
        better: which direction is better; None if neither is.
        shown: whether tables show it unless asked; one that follows from another is not shown.

    >>> Figure("error", "error", "share", better="lower").from_print(0.75)
    0.0075
    """

    name: str
    title: str
    unit: Unit = "number"
    better: Literal["higher", "lower"] | None = "lower"
    shown: bool = True

    def from_print(self, value: float) -> float:
        """A value as papers print it, in the figure's own unit: shares are printed in percent."""
        return value / 100 if self.unit == "share" else value

    def improves(self, new: float, old: float | None) -> bool:
        """Whether ``new`` is better than ``old``; anything finite is better than nothing."""
        if not math.isfinite(new) or self.better is None:
            return False
        return old is None or (new > old if self.better == "higher" else new < old)


@dataclass(frozen=True)
class Table:
    """Rows of text and numbers; the first column names the row, and None stands for what was not measured.

    ``units`` are those of the columns, the first included; by default numbers are just numbers.
    """

    title: str
    columns: list[str]
    rows: list[list[Value]]
    units: list[Unit] = field(default_factory=list)


@dataclass(frozen=True)
class Curve:
    """One plot with a line for each series; points that are not finite are left out.

    A curve with one series is drawn for all variants in one plot, with the spread over seeds.
    """

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    log_x: bool = False
    log_y: bool = False
    x_unit: Unit = "number"
    y_unit: Unit = "number"


@dataclass(frozen=True)
class Matrix:
    """Counts of pairs of classes: rows true, columns predicted. Seeds are added up.

    Shape: counts (classes, classes).
    """

    title: str
    classes: list[str]
    counts: np.ndarray
    counted: str = "images"


@dataclass(frozen=True)
class Gallery:
    """Pictures with captions, those that matter most first; ``weights`` order them over seeds, largest first.

    Shape: images uint8 (N, C, H, W); weights (N,).
    """

    title: str
    images: np.ndarray
    captions: list[str]
    weights: np.ndarray
    lead: str = ""


@dataclass(frozen=True)
class LabelMaps:
    """Images with the true and the predicted class of every pixel; labels beyond the classes mean none.

    Shape: images uint8 (N, C, H, W); labels and predictions uint8 (N, H, W).
    """

    title: str
    images: np.ndarray
    labels: np.ndarray
    predictions: np.ndarray
    classes: list[str]


@dataclass(frozen=True)
class Field:
    """A function on a rectangle, drawn as colours; with a reference, beside it and their difference.

    Shape: values and reference (rows, columns); the first row is the lowest. ``extent`` is left, right, bottom, top.
    ``paths`` (N, T, 2) are lines drawn over the colours.
    """

    title: str
    values: np.ndarray
    extent: tuple[float, float, float, float]
    x_label: str = "x"
    y_label: str = "t"
    reference: np.ndarray | None = None
    paths: np.ndarray | None = None


@dataclass(frozen=True)
class Features:
    """The features of one input through a network's time.

    Shape: image uint8 (C, H, W); each of ``maps`` (times, channels, H', W'), one for each evolution; each of ``norms``
    (times,).
    """

    title: str
    image: np.ndarray
    maps: list[np.ndarray]
    norms: list[np.ndarray]


@dataclass(frozen=True)
class Animation:
    """Points of the plane that move, and optionally which class each point of the plane is given.

    ``captions`` say what each frame is; without them frames are numbered. Each frame fills the picture, unless
    ``one_scale`` keeps places where they are. ``marked`` points, those with a label, are drawn
    larger and with a rim.

    Shape: frames (T, N, 2); labels (N,); marked bool (N,); regions (rows, columns), the first row the lowest, over the
    rectangle ``extent`` = (left, right, bottom, top) of the first frame's plane.
    """

    title: str
    frames: np.ndarray
    labels: np.ndarray
    regions: np.ndarray | None = None
    extent: tuple[float, float, float, float] | None = None
    captions: list[str] = field(default_factory=list)
    one_scale: bool = False
    marked: np.ndarray | None = None


@dataclass(frozen=True)
class Findings:
    """Everything found about one trained network, or by one study.

    Attributes:
        figures: values by name; of a task, those of its :class:`Figure` list and perhaps more.
        answer: one sentence; empty where the figures say it all.
        samples: of a figure that is a mean over trainings of one cell, such as initialisations, the value of each.
        arrays: further arrays by name, kept with the run for whoever wants them.
    """

    figures: Mapping[str, float | None] = field(default_factory=dict)
    answer: str = ""
    tables: list[Table] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    matrices: list[Matrix] = field(default_factory=list)
    galleries: list[Gallery] = field(default_factory=list)
    label_maps: list[LabelMaps] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    features: list[Features] = field(default_factory=list)
    animations: list[Animation] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    samples: Mapping[str, list[float]] = field(default_factory=dict)

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """A tree of plain values for JSON, and the arrays that it refers to by name."""
        arrays: dict[str, np.ndarray] = {}
        return _pack(self, arrays), arrays

    @classmethod
    def unpack(cls, tree: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Findings:
        """The inverse of :meth:`pack`."""
        return _unpack_record(cls, tree, arrays)


_ARRAY = "@array"  # key of a reference to an array in the plain tree


def _pack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    match value:
        case np.ndarray():
            name = f"a{len(arrays)}"
            arrays[name] = value
            return {_ARRAY: name}
        case dict():
            return {key: _pack(entry, arrays) for key, entry in value.items()}
        case list() | tuple():
            return [_pack(entry, arrays) for entry in value]
        case np.generic():
            return _pack(value.item(), arrays)
        case float():
            return value if math.isfinite(value) else None
        case str() | int() | None:
            return value
    return {one.name: _pack(getattr(value, one.name), arrays) for one in fields(value)}


def _unpack(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    match value:
        case {"@array": str(name)}:
            return arrays[name]
        case dict():
            return {key: _unpack(entry, arrays) for key, entry in value.items()}
        case list():
            return [_unpack(entry, arrays) for entry in value]
    return value


def _unpack_record(kind: Any, tree: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """A record of ``kind``; lists of records are found by the annotations of its fields."""
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for name, value in tree.items():
        inner = next(iter(get_args(hints[name])), None) if get_origin(hints[name]) is list else None
        if isinstance(inner, type) and hasattr(inner, "__dataclass_fields__"):
            values[name] = [_unpack_record(inner, entry, arrays) for entry in value]
        else:
            values[name] = _restored(kind, name, _unpack(value, arrays))
    return kind(**values)


def _restored(kind: Any, name: str, value: Any) -> Any:
    """What JSON cannot hold: points of a curve that are not finite, and tuples."""
    if kind is Curve and name == "series":
        return {line: tuple([math.nan if v is None else v for v in axis] for axis in xy) for line, xy in value.items()}
    return tuple(value) if name == "extent" and value is not None else value
