"""A trained classifier of points, asked about tables and arrays."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, DataError, ShapeError, shortened
from evolvent.data.own.arrays import as_array
from evolvent.data.own.header import is_number
from evolvent.data.own.table import read_table
from evolvent.tasks.prediction.answers import Predictions, is_table
from evolvent.tasks.prediction.predictor import Predictor, Tell, store_form
from evolvent.tasks.task import evaluating

_COUPLED = 128  # points that a file takes of a network which looks at all points together
_LEAST_DEVIATION = 1e-12  # below which a feature counts as constant


@dataclass(frozen=True)
class PointForm:
    """What is stored beside a trained classifier of points: names, and how features are scaled."""

    columns: tuple[str, ...]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, x: Tensor, columns: tuple[str, ...], classes: tuple[str, ...]) -> Self:
        """The scaling that gives these points mean 0 and deviation 1; constant features are only shifted."""
        deviation, mean = torch.std_mean(x.double(), dim=0, correction=0)
        deviation = torch.where(deviation > _LEAST_DEVIATION, deviation, 1.0)
        return cls(columns, classes, tuple(mean.tolist()), tuple(deviation.tolist()))

    @classmethod
    def drawn(cls, classes: int) -> Self:
        """Of points of the plane that are taken as they are."""
        return cls(("x0", "x1"), tuple(map(str, range(classes))), (0.0, 0.0), (1.0, 1.0))

    def scaled(self, x: Tensor) -> Tensor:
        """Points as the network takes them, in their dtype."""
        mean, deviation = (torch.tensor(part, dtype=torch.float64) for part in (self.mean, self.deviation))
        return ((x.double() - mean) / deviation).to(x.dtype)

    def save(self, folder: Path) -> None:
        store_form(folder, "points", **asdict(self))


class _Scaling(nn.Module):
    """Features as they are in tables to features as the network takes them."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation


class PointPredictor(Predictor):
    """A trained network with everything that is needed to ask it about the points of a table."""

    suffixes = (".csv",)

    def __init__(self, model: nn.Module, form: PointForm) -> None:
        self.network, self.form = model.eval(), form

    @property
    def classes(self) -> tuple[str, ...]:
        return self.form.classes

    def __call__(self, inputs: Any, tell: Tell = lambda share: None) -> Predictions:
        """The classes of points: paths of ``.csv`` files with the columns of the training or of folders of them, or
        numbers (N, d), also as a table of pandas or polars.

        Columns are found by their names, in any order; a table with other names must have as many columns.
        """
        files = self._files_of(inputs)
        if files == []:
            raise ConfigError("there are no points to predict. Give at least one.")
        if files:
            tables = [read_table(path, self.form.columns) for path in files]
            parts = [torch.from_numpy(table.numbers(self._columns(table.columns, table.path.name))) for table in tables]
            self._warn_of_names({table.path.name: table.columns for table in tables if table.named})
            x = torch.cat(parts)
        else:
            x, parts = _numbers(self._chosen(inputs) if hasattr(inputs, "columns") else inputs), []
        if x.ndim != 2 or x.shape[1] != len(self.form.columns) or len(x) == 0:
            wanted = f"{len(self.form.columns)} features ({', '.join(self.form.columns[:6])})"
            raise ShapeError(f"this network takes points of {wanted}, got {tuple(x.shape)}.")
        if not x.isfinite().all():
            row = int((~x.isfinite()).any(1).nonzero()[0, 0])
            raise DataError(f"row {row} of {len(x):,} has numbers that are not finite. Mend or leave out such rows.")
        with evaluating(self.network):
            answers = self.network(self.form.scaled(x).to(next(self.network.parameters())))
        tell(1.0)
        lengths = ((path, len(part)) for path, part in zip(files or [], parts, strict=True))
        rows = [f"{path}:{row}" for path, length in lengths for row in range(1, length + 1)]
        return Predictions(rows or [str(row) for row in range(len(x))], self.classes, answers.float().softmax(1).cpu())

    def for_export(self) -> tuple[nn.Module, Tensor]:
        """A network from features (B, d) as they are in tables to the probabilities of classes, and an example."""
        draw = torch.Generator().manual_seed(0)
        mean, deviation = (torch.tensor(part) for part in (self.form.mean, self.form.deviation))
        count = _COUPLED if getattr(self.network, "couples_batch", False) else 2
        example = mean + deviation * torch.randn(count, len(mean), generator=draw)
        return nn.Sequential(_Scaling(mean, deviation), self.network, nn.Softmax(dim=1)).eval(), example

    def _is_answer(self, file: Path) -> bool:
        return is_table(file)

    def _chosen(self, frame: Any) -> Any:
        """The columns of a table of pandas or polars that the network takes; numbered ones of pandas have no names."""
        names = {str(name): name for name in frame.columns}
        chosen = self._columns(list(names), "the table")
        if list(frame.columns) != list(range(len(names))):
            self._warn_of_names({"the table": list(names)})
        return frame[[names[name] for name in chosen]]

    def _columns(self, names: Sequence[str], what: str) -> list[str]:
        """Those of the training; of a table that has not all of these names, all columns in their order."""
        if self._names_fit(names):
            return list(self.form.columns)
        if len(names) != len(self.form.columns):
            raise DataError(
                f"{what} must have the columns {_listed(self.form.columns)}, in any order, or as many "
                f"without names; it has {len(names)}: {_listed(names)}. Rename them, or leave out "
                "those that are not needed."
            )
        return list(names)

    def _names_fit(self, names: Sequence[str]) -> bool:
        return set(self.form.columns) <= set(names)

    def _warn_of_names(self, tables: Mapping[str, Sequence[str]]) -> None:
        """Once for all tables, of the first whose columns are named otherwise."""
        other = next((what for what, names in tables.items() if not self._names_fit(names)), None)
        if other is not None:
            warnings.warn(
                f"{other} has the columns {_listed(tables[other])}, which are taken in this order as "
                f"{_listed(self.form.columns)}, as in the training.",
                stacklevel=3,
            )


def _numbers(values: Any) -> Tensor:
    """Points as float32, of numbers or of texts that are numbers; a copy, whatever the layout of the array."""
    array = as_array(values)
    try:
        with np.errstate(over="ignore"):  # the infinities that come of it are refused
            return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
    except ValueError:
        word = next(str(cell) for cell in array.flat if not is_number(str(cell)))
        raise DataError(
            f"points are rows of numbers, got {shortened(repr(word), 40)}. Leave out columns of words."
        ) from None


def _listed(columns: Sequence[str]) -> str:
    return shortened(", ".join(columns), 60)
