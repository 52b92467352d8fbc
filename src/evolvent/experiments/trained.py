"""A trained cell, read back from its folder, for whatever looks at it afterwards."""

from __future__ import annotations

import os
from dataclasses import dataclass

from torch import Tensor

from evolvent._core.checks import check_path
from evolvent._core.errors import ConfigError
from evolvent.data import Batches, Material
from evolvent.experiments.data_record import data_warning
from evolvent.experiments.engine import DataShelf, build_model
from evolvent.experiments.recipe import Cell
from evolvent.experiments.record import not_a_run, read_cell
from evolvent.tasks import Figure, Findings, LabelledImages, Task
from evolvent.tasks.own_data import found_again


@dataclass(frozen=True)
class TrainedCell:
    """A cell with its data, and its task with the kept network."""

    cell: Cell
    material: Material
    task: Task
    warning: str = ""
    """One line if the data are not those of the training any more; else empty."""

    def examples(self, count: int) -> Tensor:
        """A few inputs as the network takes them, in its precision, at most ``count``."""
        if self.material.example is None:
            raise ConfigError(f"{self._named} has no example inputs to analyze it with.")
        found, like = self.material.example[:count].clone(), next(self.task.model.parameters(), None)
        if like is None or not (like.is_floating_point() and found.is_floating_point()):
            return found
        return found.to(like.dtype)

    def labelled_images(self, count: int) -> LabelledImages:
        """Test images with their classes, at most ``count``."""
        found = self.task.labelled_images(self.material.test, count)
        if found is None:
            raise ConfigError(f"{self._named} has no images with a class each, which this analysis needs.")
        return found

    def evaluate(self) -> Findings:
        """Test the kept network once more."""
        test = Batches(self.material.test, self.cell.data.rows_evaluated, self.cell.seed)
        return self.task.conclude(test)

    @property
    def _named(self) -> str:
        return f"{self.cell.label}: the task {self.cell.task.name}"


def load_trained(folder: str | os.PathLike[str], shelf: DataShelf) -> TrainedCell:
    """Read a trained cell and the data that it names; of its folder only what this needs, the rest may be damaged."""
    folder = check_path(folder, "load_trained")
    cell = read_cell(folder)
    if cell is None:
        raise not_a_run(folder)
    found = found_again(cell.data, folder, shelf.folder)
    material = shelf.material(cell.model_copy(update={"data": found}))
    task = cell.kind(build_model(cell, material), material, cell.setup)
    task.load_kept(folder / "model")
    return TrainedCell(cell, material, task, data_warning(folder, material))


def evaluate_run(
    folder: str | os.PathLike[str], data_folder: str | os.PathLike[str] | None = None
) -> tuple[Cell, list[Figure], Findings]:
    """Test the kept model of a cell's folder once more: the cell, what its figures are, and what was found."""
    trained = load_trained(folder, DataShelf(None if data_folder is None else check_path(data_folder, "evaluate_run")))
    return trained.cell, list(trained.task.figures), trained.evaluate()
