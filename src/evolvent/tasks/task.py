"""The contract of a task: what a network is trained for, independent of how it is trained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError
from evolvent._core.modes import evaluation_mode
from evolvent._core.registry import Registry
from evolvent.data import Batches, Material, Source
from evolvent.networks import load, save
from evolvent.tasks.findings import Figure, Findings
from evolvent.tasks.gauss_newton import ResidualBlock
from evolvent.tasks.optimizers import OptimizerConfig
from evolvent.tasks.schedules import ScheduleConfig
from evolvent.tasks.turns import Plan, Turn

Sums: TypeAlias = dict[str, Tensor]
"""Measures that add up over batches and processes, such as a sum of losses and the number of rows behind it."""


class TaskSettings(Config):
    """A recipe's ``task`` section; each task adds its own keys and gives its name as the default."""

    name: str = "classification"


class DataSettings(Config):
    """A recipe's ``data`` section; each task adds its own keys."""

    batch_size: int | None = Field(default=None, ge=1, description="rows of a step; all rows if null")
    eval_batch_size: int | None = Field(default=None, ge=1, description="rows evaluated at a time")

    @property
    def title(self) -> str | None:
        """What lists call the data; None for data that the task makes itself."""
        return getattr(self, "name", None)

    @property
    def rows_evaluated(self) -> int | None:
        """Rows evaluated at a time; None for all."""
        return self.eval_batch_size


@dataclass(frozen=True)
class LabelledImages:
    """Images with a class each, and the network that classifies them.

    Attributes:
        classifier: from the images, as they are, to a score for each class.
        images: (N, C, H, W).
        labels: int64 (N,).
        background: what lies outside of an image, (C, H, W).
        classes: names of the classes; empty if they have none.
    """

    classifier: nn.Module
    images: Tensor
    labels: Tensor
    background: Tensor
    classes: Sequence[str] = ()


class Task(nn.Module, ABC):
    """A network with what it is trained for: objective, measures, findings.

    A task is registered with :func:`register_task` and named by a recipe's ``task.name``. The engine calls, in this
    order: :meth:`read` once for each data section, :meth:`material` for each cell, the constructor, :meth:`turns`, then
    :meth:`objective` for every step and :meth:`measure` for every watched batch, and :meth:`conclude` at the end.

    Everything random must be a function of the seed, the step and the rows of a batch: torch's generators are set
    before each step. What a task changes while it trains belongs into parameters or buffers, which checkpoints keep.

    Args:
        model: the network, built for ``material``.
        material: what it is trained on.
        setup: the recipe's settings for this task.

    Attributes:
        model: the network.
        setup: the settings; ``setup.settings`` and ``setup.data`` are the recipe's ``task`` and ``data`` sections.
        material_name: name of the data set.
        totals: of a task without turns, the measures of all its rows when it is concluded; else None.
    """

    Settings: ClassVar[type[TaskSettings]] = TaskSettings
    Data: ClassVar[type[DataSettings]] = DataSettings

    figures: tuple[Figure, ...]
    """What :meth:`figures_of` and :meth:`conclude` give; the first is the score, by which the best model is chosen.

    A class attribute; a task whose settings ask for more figures may extend it for itself.
    """

    chooses_best: ClassVar[bool] = False
    """Whether the task itself keeps the best of its weights, in buffers; then the last state is saved, not the best."""

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__()
        self.model = model
        self.material_name = material.name
        self.setup = setup
        self.totals: Sums | None = None

    @classmethod
    @abstractmethod
    def read(cls, data: Any, folder: Path | None) -> Any:
        """Read what a data section names; the result is shared by all cells with that section.

        Args:
            data: the section, an instance of :attr:`Data`.
            folder: where to look for data sets; None for the usual places.
        """

    @classmethod
    @abstractmethod
    def material(cls, found: Any, data: Any, seed: int) -> Material:
        """Divide what :meth:`read` found into what is trained on, watched and tested; splits may depend on the seed."""

    @classmethod
    def check_model(cls, name: str, options: Sequence[str]) -> None:
        """Refuse a network that cannot be used for this task, given the options that it has."""

    @abstractmethod
    def objective(self, batch: Any, turn: str) -> tuple[Tensor, Sums]:
        """The objective of a training step, and measures of the batch for the training's figures.

        Under several processes each sees its share of a batch; gradients are averaged.
        """

    def residuals(self, batch: Any, turn: str) -> Sequence[ResidualBlock]:
        """Residuals whose squares add up to the objective of a step, with their derivatives; for ``gauss-newton``."""
        raise ConfigError(
            f"gauss-newton needs an objective that is a sum of squares of residuals, which {type(self).__name__} does "
            "not give. Take adam, lbfgs or ssbroyden."
        )

    @abstractmethod
    def measure(self, batch: Any) -> Sums:
        """Measures of a batch of the watched or test rows, without gradients."""

    @abstractmethod
    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Figures from added-up measures of a whole part, or of the training batches of an epoch."""

    def turns(self, plan: Plan) -> list[Turn]:
        """Which optimiser trains which parameters when; by default one trains the network all the time.

        A task without turns is not trained: its train rows, which may be trainings of their own, such as few-shot
        episodes, are measured once, and :attr:`totals` are what was measured.
        """
        return [Turn(trainable(self.model), self.setup.optimizer, self.setup.schedule)]

    def epoch_ends(self, watched: Mapping[str, Tensor]) -> bool:
        """Called after the watched rows were measured; buffers may be changed. True ends the training here."""
        return False

    def optimizer_stops(self, turn: str, reason: str) -> bool:
        """Called after a step in which a turn's optimiser could do no more; True ends the training here."""
        return False

    def conclude(self, test: Batches) -> Findings:
        """Look at the trained network; by default just the figures on the test rows. Called in one process.

        Batches of ``test`` are as the source makes them; :meth:`placed` gives them as the network takes them.
        """
        return Findings(figures=self.test_figures(test))

    def labelled_images(self, test: Source, count: int) -> LabelledImages | None:
        """At most ``count`` test images with their classes, for analyses; None if the task does not classify images."""
        return None

    def for_export(self, material: Material) -> tuple[nn.Module, Tensor]:
        """A network that takes one tensor, and an example of at least two inputs, to be written as a file.

        Classifiers of images and points are written with their preprocessing instead; see
        :func:`~evolvent.tasks.prediction.loading.load_predictor`.
        """
        if material.example is None:
            raise ConfigError(f"the task {self.setup.settings.name} has no network that can be written to a file.")
        return self.model, self.placed(material.example[:2])

    def save_kept(self, folder: Path) -> None:
        """Save what is kept of the training; by default the network."""
        save(self.model, folder)

    def load_kept(self, folder: Path) -> None:
        """Load what :meth:`save_kept` wrote."""
        self.model = load(folder).to(next(self.model.parameters()).device)

    def forward(self, batch: Any, turn: str) -> tuple[Tensor, Sums]:
        """The objective; data parallel training wraps this."""
        return self.objective(batch, turn)

    def test_figures(self, test: Batches) -> dict[str, float]:
        """The figures on all rows of a source; of a task without turns those that were measured already."""
        return self.figures_of(self.add_up(test) if self.totals is None else self.totals)

    def placed(self, batch: Any) -> Any:
        """A batch on the network's device, its floating-point numbers in the network's precision.

        Batches that :meth:`objective` and :meth:`measure` are given are placed already.
        """
        like = next(self.model.parameters())
        return to_device(batch, like.device, like.dtype)

    def add_up(self, batches: Batches) -> Sums:
        """Measures added up over this process's share of a source, in evaluation mode."""
        total: Sums = {}
        with evaluating(self):
            for batch in batches.once():
                add_sums(total, self.measure(self.placed(batch)))
        return total


@dataclass(frozen=True)
class Setup:
    """What a recipe says to a task."""

    settings: Any
    data: Any
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    seed: int = 0


TASKS: Registry[type[Task]] = Registry("task")

T = TypeVar("T", bound=type[Task])


def mean_over_processes(value: Tensor) -> Tensor:
    """The mean of a tensor over all processes of a training, without gradient."""
    value = value.detach().clone()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(value)
        value /= torch.distributed.get_world_size()
    return value


def register_task(name: str) -> Callable[[T], T]:
    """Register a task under the name that recipes give as ``task.name``."""

    def add(kind: T) -> T:
        TASKS.add(name, kind)
        return kind

    return add


def trainable(module: nn.Module) -> list[nn.Parameter]:
    """The parameters of a module that are trained."""
    return [p for p in module.parameters() if p.requires_grad]


def add_sums(total: Sums, found: Mapping[str, Tensor]) -> None:
    """Add measures to a total, in place; sums of floating-point numbers are kept in float64."""
    for name, value in found.items():
        value = value.detach()
        value = value.double() if value.is_floating_point() else value
        total[name] = total[name] + value if name in total else value.clone()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients inside the block."""
    with evaluation_mode(module), torch.no_grad():
        yield


def to_device(batch: Any, device: torch.device, dtype: torch.dtype | None = None) -> Any:
    """Tensors in nested tuples, lists and mappings, moved to a device; floating-point numbers become ``dtype``.

    So is whatever has a method ``to(device, dtype)``, such as a sparse matrix.
    """
    if isinstance(batch, Tensor):
        return batch.to(device, dtype if batch.is_floating_point() else None, non_blocking=True)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(part, device, dtype) for part in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(to_device(part, device, dtype) for part in batch)
    if isinstance(batch, Mapping):
        return {key: to_device(part, device, dtype) for key, part in batch.items()}
    return batch.to(device, dtype) if hasattr(batch, "to") else batch
