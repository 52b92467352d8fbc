"""What a recipe says: an experiment with variants and seeds, as a grid of cells, or a study with its settings."""

from __future__ import annotations

import hashlib
import json
import math
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError
from evolvent.tasks.class_weights import ClassWeights
from evolvent.tasks.optimizers import OptimizerConfig
from evolvent.tasks.schedules import ScheduleConfig


class ModelConfig(Config):
    """A registered network and its options."""

    name: str
    options: dict[str, Any] = {}


class AugmentConfig(Config):
    """Zero padding with random crop, random horizontal flip, random light; a mask is moved as its image is."""

    pad: int = Field(default=0, ge=0)
    flip: bool = False
    exposure: float = Field(default=0.0, ge=0, le=8, description="light is changed by up to so many stops")


class DataConfig(Config):
    """A data set by name, how it is cut and how it is served."""

    name: str
    batch_size: int = Field(default=100, ge=1)
    eval_batch_size: int | None = Field(
        default=None, ge=1, description="by default 500, or for segmentation the batch size"
    )
    validation: float = Field(
        default=0.0, ge=0, lt=1, description="share of the training images held out to choose the model"
    )
    fraction: float = Field(default=1.0, gt=0, le=1, description="share of the training images that is used")
    reduce: int = Field(
        default=1, ge=1, description="make images smaller by this factor: means over squares, majorities in masks"
    )
    augment: AugmentConfig = AugmentConfig()


class TaskConfig(Config):
    """The objective."""

    name: Literal["classification", "segmentation"] = "classification"
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    class_weights: ClassWeights | None = Field(
        default=None, description="for segmentation, how rare classes count for more in the loss"
    )
    smoothness: float = Field(
        default=0.0, ge=0, description="weight smoothness decay, alpha_2 of Bohn et al. 2021, eq. 4.8"
    )
    test_noise: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        default=[],
        description="also test the kept model on noisy images: standard deviations as shares of the pixel range 255",
    )

    @field_validator("test_noise")
    @classmethod
    def _only_for_classification(cls, levels: list[float], info: ValidationInfo) -> list[float]:
        if levels and info.data.get("name") == "segmentation":
            raise ValueError("noise is tested for classification only; leave it out for segmentation")
        return levels


class TrainingConfig(Config):
    """How long and by which means."""

    epochs: int = Field(default=10, ge=1)
    gradient: str = "backprop"
    clip_norm: float | None = Field(default=None, gt=0)
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"] = "32-true"
    memory_format: Literal["contiguous", "channels_last"] = Field(
        default="contiguous", description="order of features in memory; channels_last is often faster for wide networks"
    )
    checkpoint_steps: int | None = Field(
        default=None, ge=1, description="also checkpoint every so many steps, inside an epoch"
    )
    refine_at: list[Annotated[int, Field(ge=1)]] = Field(
        default=[],
        description="multilevel training: epochs after which every evolution gets twice the steps of half the size",
    )

    @field_validator("refine_at")
    @classmethod
    def _rises_below_epochs(cls, marks: list[int], info: ValidationInfo) -> list[int]:
        bounds = [*marks, info.data.get("epochs", math.inf)]
        if any(before >= after for before, after in pairwise(bounds)):
            raise ValueError(f"the network is refined after ever later epochs, before the last of {bounds[-1]}")
        return marks

    @property
    def level_epochs(self) -> tuple[int, ...]:
        """Epochs of each level of multilevel training; all on one level unless ``refine_at`` says otherwise."""
        return tuple(after - before for before, after in pairwise([0, *self.refine_at, self.epochs]))


class PublishedFigure(Config):
    """A figure printed in a paper, to stand beside the measured one; accuracy or mIoU above 1 is in percent."""

    variant: str
    metric: str = "accuracy"
    value: float
    source: str


class Cell(Config):
    """One training: a recipe with variant and seed chosen. This is what ``config.yaml`` of a run folder holds."""

    recipe: str
    variant: str
    seed: int = Field(default=0, ge=0)
    model: ModelConfig
    data: DataConfig
    task: TaskConfig = TaskConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: TrainingConfig = TrainingConfig()

    @property
    def label(self) -> str:
        return f"{self.variant}-seed{self.seed}"

    @property
    def eval_batch_size(self) -> int:
        """Images evaluated at a time."""
        return self.data.eval_batch_size or (self.data.batch_size if self.task.name == "segmentation" else 500)


class Recipe(Config):
    """An experiment: a question, a setting, and optionally variants and seeds that span a grid."""

    name: str
    title: str
    question: str
    papers: list[str] = []
    minutes: float | None = Field(
        default=None, description="measured wall-clock time of the whole grid on two CPU cores"
    )
    model: ModelConfig
    data: DataConfig
    task: TaskConfig = TaskConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: TrainingConfig = TrainingConfig()
    variants: dict[str, dict[str, Any]] = {}
    seeds: list[int] = Field(default=[0], min_length=1)
    published: list[PublishedFigure] = []

    def cells(self) -> list[Cell]:
        """Every variant with every seed, variants first.

        A variant is a nested mapping that is laid over the recipe's own setting; a variant that names another model
        starts from that model's default options.
        """
        return [
            self._cell(variant, seed) for seed in self.seeds for variant in (self.variants or {self.model.name: {}})
        ]

    def _cell(self, variant: str, seed: int) -> Cell:
        setting = self.model_dump(include={"model", "data", "task", "optimizer", "schedule", "training"}, mode="json")
        values = overlay(setting, self.variants.get(variant, {}))
        values |= {"recipe": self.name, "variant": variant, "seed": seed}
        return Cell.read(values, f"variant {variant!r} of recipe {self.name!r}")

    @property
    def scope(self) -> tuple[str, str]:
        """Which data, and how many trainings, in words."""
        cells = self.cells()
        return ", ".join(dict.fromkeys(cell.data.name for cell in cells)), str(len(cells))

    @property
    def identity(self) -> str:
        """Eight hexadecimal digits that change with any setting that changes a result."""
        return _identity(self.model_dump(exclude=_WORDS | {"published"}, mode="json"))


class StudyRecipe(Config):
    """A question that a registered study answers by a computation of its own; it trains no grid of cells."""

    name: str
    title: str
    question: str
    papers: list[str] = []
    minutes: float | None = Field(default=None, description="measured wall-clock time on one CPU core")
    study: str
    settings: dict[str, Any] = {}
    seeds: list[int] = Field(default=[0], min_length=1)

    @property
    def scope(self) -> tuple[str, str]:
        """Which data, and how many trainings, in words."""
        return "its own", "–"

    @property
    def identity(self) -> str:
        """Eight hexadecimal digits that change with any setting that changes a result."""
        return _identity(self.model_dump(exclude=_WORDS, mode="json"))


_WORDS = {"title", "question", "papers", "minutes"}  # change no result


def _identity(setting: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(setting, sort_keys=True).encode()).hexdigest()[:8]


def overlay(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with the leaves of ``changes`` laid over it; naming another model drops the old model's options.

    >>> overlay({"a": {"b": 1, "c": 2}}, {"a": {"b": 5}})
    {'a': {'b': 5, 'c': 2}}
    """
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = overlay({} if key == "model" and _names_another(value, old) else old, value)
        else:
            merged[key] = value
    return merged


def assign(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """``values`` with what stands at a dotted ``path`` replaced; another ``model.name`` drops the model's options.

    >>> assign({"data": {"name": "digits"}}, "data.batch_size", 50)
    {'data': {'name': 'digits', 'batch_size': 50}}
    """
    head, _, rest = path.partition(".")
    if not head or path.endswith("."):
        raise ConfigError(f"--set takes key=value with a dotted key such as optimizer.lr, got {path!r}.")
    if not rest:
        return {**values, head: value}
    inner = values.get(head)
    inner = inner if isinstance(inner, dict) else {}
    if head == "model" and rest == "name" and _names_another({"name": value}, inner):
        inner = {}
    return {**values, head: assign(inner, rest, value)}


def _names_another(changes: dict[str, Any], model: dict[str, Any]) -> bool:
    return changes.get("name", model.get("name")) != model.get("name")
