"""What a recipe says: an experiment with variants and seeds, as a grid of cells, or a study with its settings."""

from __future__ import annotations

import hashlib
import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError, shortened
from evolvent._core.slugs import slug
from evolvent.tasks import TASKS, DataSettings, OptimizerConfig, ScheduleConfig, Setup, Task, TaskSettings
from evolvent.tasks.own_data import section_in, without_other_origin

FORMAT = 1
"""Number of the format of every file in a run folder; it changes when older files can no longer be read."""


Seed = Annotated[int, Field(ge=0, lt=2**63)]


class ModelConfig(Config):
    """A registered network and its options."""

    name: str
    options: dict[str, Any] = {}
    start: str | None = Field(
        default=None, description="folder of a trained network that gives its weights, but for the last layer"
    )


def _seconds(value: Any) -> Any:
    """A span of time such as 90, 45s, 5m or 1.5h in seconds."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([smh]?)\s*", value)
    if not match:
        raise ValueError(f"write a time as 90s, 5m or 1.5h, got {shortened(repr(value))}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


class TrainingConfig(Config):
    """How long and by which means; one of ``epochs``, ``steps`` and ``budget`` says how long."""

    epochs: int | None = Field(default=None, ge=1, description="10 unless steps or budget is given")
    steps: int | None = Field(default=None, ge=1, description="batches to train on, whatever the number of optimisers")
    budget: Annotated[float, BeforeValidator(_seconds)] | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="wall-clock time for training and evaluation, such as 90s, 5m or 2h",
    )
    epoch_steps: int | None = Field(
        default=None, ge=1, description="steps of an epoch, after which the network is evaluated; else one pass"
    )
    patience: int | None = Field(
        default=None, ge=1, description="end after this many epochs without a better score on held-out rows"
    )
    gradient: str = "backprop"
    clip_norm: float | None = Field(default=None, gt=0)
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"] = "32-true"
    memory_format: Literal["contiguous", "channels_last"] = Field(
        default="contiguous", description="order of features in memory; channels_last is often faster for wide networks"
    )
    checkpoint_steps: int | None = Field(
        default=None, ge=1, description="steps between checkpoints inside an epoch; none if null"
    )
    keep_checkpoint: bool = Field(default=True, description="keep the last checkpoint when the training has finished")
    refine_at: list[Annotated[int, Field(ge=1)]] = Field(
        default=[],
        description="multilevel training: epochs after which every evolution gets twice the steps of half the size",
    )

    @model_validator(mode="before")
    @classmethod
    def _ten_epochs_unless_told(cls, values: Any) -> Any:
        if isinstance(values, dict) and all(values.get(key) is None for key in ("epochs", "steps", "budget")):
            return {**values, "epochs": 10}
        return values

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        given = [key for key in ("epochs", "steps", "budget") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of epochs, steps and budget, not {' and '.join(given)}")
        if self.refine_at and self.epochs is None:
            raise ValueError("refine_at counts epochs, so the length must be given in epochs")
        return self

    @field_validator("refine_at")
    @classmethod
    def _rises_below_epochs(cls, marks: list[int], info: ValidationInfo) -> list[int]:
        bounds = [*marks, info.data.get("epochs") or math.inf]
        if any(before >= after for before, after in pairwise(bounds)):
            raise ValueError(f"list rising epochs below the number of epochs, {bounds[-1]}")
        return marks


class PublishedFigure(Config):
    """A figure printed in a paper, to stand beside the measured one; shares are given in percent, as printed."""

    variant: str
    metric: str = "accuracy"
    value: float
    source: str


_SECTIONS = ("model", "data", "task", "optimizer", "schedule", "training")


class Cell(Config):
    """One training: a recipe with one variant and one seed. This is what ``config.yaml`` of a run folder holds."""

    format: int = FORMAT
    recipe: str
    variant: str
    seed: Seed = 0
    model: ModelConfig
    data: SerializeAsAny[DataSettings]
    task: SerializeAsAny[TaskSettings]
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    training: TrainingConfig = TrainingConfig()

    @classmethod
    def read(cls, values: dict[str, Any], source: str, at: str = "") -> Self:
        """Validate ``values``; the sections ``task`` and ``data`` are checked by the task that ``task.name`` names."""
        check_format(values, source)
        task = _section(values, "task", source)
        kind = TASKS.get(str(task.get("name", TaskSettings().name)))
        settings = kind.Settings.read(task, source, "task")
        data = kind.Data.read(_section(values, "data", source), source, "data")
        return super().read({**values, "task": settings, "data": data}, source, at)

    @property
    def kind(self) -> type[Task]:
        """The task's class."""
        return TASKS.get(self.task.name)

    @property
    def setup(self) -> Setup:
        """What the task is told."""
        return Setup(self.task, self.data, self.optimizer, self.schedule, self.seed)

    @property
    def data_name(self) -> str:
        """What people call the data."""
        named = (getattr(self.data, key, None) for key in ("title", "name", "kind"))
        return next((str(value) for value in named if value), self.task.name)

    @property
    def label(self) -> str:
        """What people call the cell."""
        return f"{self.variant}-seed{self.seed}"

    @property
    def folder_name(self) -> str:
        """The label as the name of a folder."""
        return f"{slug(self.variant)}-seed{self.seed}"


def check_format(values: Any, source: str) -> None:
    """Refuse a file that a later version of the library wrote."""
    found = values.get("format", FORMAT) if isinstance(values, dict) else FORMAT
    if found != FORMAT:
        raise ConfigError(f"{source} has format {found}, this version reads {FORMAT}. Use the version that wrote it.")


def _section(values: dict[str, Any], name: str, source: str) -> dict[str, Any]:
    found = values.get(name) or {}
    if isinstance(found, Config):
        return found.model_dump(mode="json")
    if not isinstance(found, dict):
        raise ConfigError(f"{source}: {name} must be a mapping of keys to values, got {found!r}.")
    return found


class Recipe(Config):
    """An experiment: a question, a setting, and optionally variants and seeds that span a grid.

    The sections of the setting are kept as they were written; :meth:`cells` validates and completes them.
    """

    format: int = FORMAT
    name: str
    title: str
    question: str
    papers: list[str] = []
    minutes: float | None = Field(
        default=None, description="measured wall-clock time of the whole grid on two CPU cores"
    )
    model: dict[str, Any]
    data: dict[str, Any]
    task: dict[str, Any] = {}
    optimizer: dict[str, Any] = {}
    schedule: dict[str, Any] = {}
    training: dict[str, Any] = {}
    variants: dict[str, dict[str, Any]] = {}
    seeds: list[Seed] = Field(default=[0], min_length=1)
    published: list[PublishedFigure] = []
    cautions: list[str] = Field(default=[], description="what a reader must know of changes; `--set` adds lines")

    def cells(self) -> list[Cell]:
        """Every variant with every seed, variants first.

        A variant is a nested mapping that is laid over the recipe's own setting; a variant that names another model
        starts from that model's default options.
        """
        variants = [self._cell(variant) for variant in self.variants or {str(self.model.get("name")): {}}]
        return [cell.model_copy(update={"seed": seed}) for seed in dict.fromkeys(self.seeds) for cell in variants]

    def _cell(self, variant: str) -> Cell:
        setting = {name: getattr(self, name) for name in _SECTIONS}
        values = overlay(setting, self.variants.get(variant, {}))
        values |= {"recipe": self.name, "variant": variant}
        unnamed = not self.variants and not self.model.get("name")
        return Cell.read(values, f"recipe {self.name!r}" if unnamed else f"variant {variant!r} of recipe {self.name!r}")

    @property
    def scope(self) -> tuple[str, str]:
        """Which data, and how many trainings, for lists of recipes."""
        cells = self.cells()
        named = (cell.data.title or cell.task.name for cell in cells)
        return ", ".join(dict.fromkeys(named)), str(len(cells))

    @property
    def identity(self) -> str:
        """Eight hexadecimal digits that change with what the recipe says of the setting and its variants.

        Defaults that it leaves out do not count, so a new key moves no run folder; neither do seeds, so seeds can be
        added to a run.
        """
        return _identity(self.given)

    @property
    def given(self) -> dict[str, Any]:
        """What the recipe says of the setting and its variants, in its own words."""
        return {name: getattr(self, name) for name in (*_SECTIONS, "variants")}

    def moved_to(self, folder: Path) -> Recipe:
        """The recipe of a run whose folder lies here now, with the archive of its data."""
        variants = {
            name: {**changes, "data": section_in(folder, changes["data"])} if "data" in changes else changes
            for name, changes in self.variants.items()
        }
        return self.model_copy(update={"data": section_in(folder, self.data), "variants": variants})


class StudyRecipe(Config):
    """A question that a registered study answers by a computation of its own; it trains no grid of cells."""

    format: int = FORMAT
    name: str
    title: str
    question: str
    papers: list[str] = []
    minutes: float | None = Field(default=None, description="measured wall-clock time on one CPU core")
    study: str
    settings: dict[str, Any] = {}
    seeds: list[Seed] = Field(default=[0], min_length=1)

    @property
    def scope(self) -> tuple[str, str]:
        """Which data, and how many trainings, for lists of recipes."""
        return "its own", "–"

    @property
    def identity(self) -> str:
        """Eight hexadecimal digits that change with the settings that the recipe gives."""
        return _identity(self.given)

    @property
    def given(self) -> dict[str, Any]:
        """What the recipe says of the study, in its own words."""
        return {"study": self.study, "settings": self.settings}


def differences(before: Any, now: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """What differs between two trees of settings, by dotted keys: the value before and now, None where there is none.

    >>> differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 5, "c": 2}, "d": 3})
    {'a.b': (1, 5), 'd': (None, 3)}
    """
    one, other = dict(leaves(before, path)), dict(leaves(now, path))
    keys = [key for key in dict.fromkeys([*one, *other]) if one.get(key) != other.get(key)]
    return {key: (one.get(key), other.get(key)) for key in keys}


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """The values of a tree of settings by their dotted keys.

    >>> leaves({"a": {"b": 1}, "c": [2]})
    [('a.b', 1), ('c', [2])]
    """
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in leaves(inner, f"{path}.{key}" if path else str(key))]
    return [(path, value)] if path else []


def _identity(given: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()[:8]


_LENGTHS = ("epochs", "steps", "budget")


def overlay(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """``base`` with the leaves of ``changes`` laid over it.

    Naming another model drops the old model's options, another task its settings, and data or a length of training
    given in one way drop those that were given in another.

    >>> overlay({"a": {"b": 1, "c": 2}}, {"a": {"b": 5}})
    {'a': {'b': 5, 'c': 2}}
    >>> overlay({"training": {"epochs": 8, "clip_norm": 1.0}}, {"training": {"budget": "5m"}})
    {'training': {'clip_norm': 1.0, 'budget': '5m'}}
    """
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = overlay(_still_valid(key, old, value), value)
        else:
            merged[key] = value
    return merged


def assign(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """``values`` with what stands at a dotted ``path`` replaced; see :func:`overlay` for what that drops.

    >>> assign({"data": {"name": "digits"}}, "data.batch_size", 50)
    {'data': {'name': 'digits', 'batch_size': 50}}
    """
    head, _, rest = path.partition(".")
    if not head or path.endswith("."):
        raise ConfigError(f"--set takes key=value with a dotted key such as optimizer.lr, got {path!r}.")
    if not rest:
        return {**values, head: value}
    inner = values.get(head)
    inner = _still_valid(head, inner, {rest: value}) if isinstance(inner, dict) else {}
    return {**values, head: assign(inner, rest, value)}


def _still_valid(section: str, old: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """What of an earlier section stays when ``changes`` are laid over it."""
    if section in ("model", "task") and changes.get("name", old.get("name")) != old.get("name"):
        return {}
    if section == "data":
        return without_other_origin(old, changes)
    if section == "training" and any(changes.get(key) is not None for key in _LENGTHS):
        return {key: value for key, value in old.items() if key not in _LENGTHS}
    return old
