"""Classes of points, drawn in the plane or your own: a network's flow moves them until lines separate the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, cast

import numpy as np
import torch
from pydantic import BeforeValidator, Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent._core.randomness import Stream, derive_seed, key
from evolvent.data import Batches, Material, PointCloud, PointData, TensorSource, from_csv, stratified
from evolvent.data.own.parts import unseen_warning
from evolvent.networks import PointNetwork
from evolvent.tasks.accuracy import class_figures, class_sums
from evolvent.tasks.findings import Animation, Figure, Findings
from evolvent.tasks.flow_view import FeatureRecord, decision_regions, evenly_chosen, feature_path, turning_view
from evolvent.tasks.optimizers import OptimizerConfig
from evolvent.tasks.own_data import OwnPath, TestShare, existing, read_archive
from evolvent.tasks.prediction import PointForm
from evolvent.tasks.task import DataSettings, Setup, Sums, Task, TaskSettings, register_task, trainable
from evolvent.tasks.turns import Plan, Turn

_SPLIT_SEED = 0  # of points of the user's own that are held out

ColumnName: TypeAlias = Annotated[str, BeforeValidator(lambda name: str(name) if type(name) is int else name)]
"""A name of a column, which YAML reads as a whole number if it is one."""


class PointsSettings(TaskSettings):
    """The objective, the optimiser of the last linear map, and what the animation of the flow shows."""

    name: str = "points"
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    head_optimizer: OptimizerConfig | None = Field(
        default=None, description="trains the last linear map in turns of its own; the recipe's optimiser the rest"
    )
    head_every: int = Field(default=1, ge=1, description="batches from one turn of the last linear map to the next")
    shown: int = Field(default=240, ge=1, description="test points in the animation")
    grid: int = Field(default=60, ge=2, description="pixels of the decision regions along each axis")
    recorded_epochs: int = Field(default=0, ge=0, description="epochs after which the features are drawn as well")
    projection: Literal["features", "turning"] = Field(
        default="turning", description="the first two features, or a view that turns from them to the principal plane"
    )


class PointsData(PointCloud, DataSettings):
    """Your own points, or drawn ones, new for each seed: for training, for testing, and perhaps for validation."""

    csv: OwnPath | None = Field(default=None, description="your own points: a table with a column of classes")
    npz: OwnPath | None = Field(default=None, description="your own points: an archive with x and y")
    label: ColumnName | None = Field(
        default=None, description="column of the classes in the table; the last one if null"
    )
    test: Literal["drawn", "same"] | TestShare = Field(
        default="drawn", description="further points, or those of the training; of your own points a share, else 0.2"
    )
    labelled: int | None = Field(default=None, ge=1, description="points of each class whose class is trained on; all")
    validation: int = Field(
        default=0, ge=0, le=10**8, description="points of each class by which the best model is chosen"
    )

    @model_validator(mode="after")
    def _own_or_drawn(self) -> Self:
        if self.csv and self.npz:
            raise ValueError("give one of csv and npz")
        if not self.own and (isinstance(self.test, float) or self.label):
            raise ValueError("a share of test points and the column of classes are for your own points; give csv")
        if self.own and self.labelled is not None:
            raise ValueError("labelled is for drawn points; leave it out for your own")
        return self

    @property
    def own(self) -> str | None:
        """The file of the user's own points."""
        return self.csv or self.npz

    @property
    def title(self) -> str | None:
        return Path(self.own).name if self.own else None

    def trained_classes(self, classes: Tensor, seed: int) -> Tensor:
        """The classes, with -1 for points whose class is not to be trained on."""
        if self.labelled is None:
            return classes
        if self.labelled > self.points or self.batch_size is not None:
            raise ConfigError(
                f"data.labelled needs as many points of each class and all points in one batch, got {self.labelled} of "
                f"{self.points} points and batch_size {self.batch_size}."
            )
        order = torch.rand(self.classes, self.points, generator=torch.Generator().manual_seed(seed)).argsort(dim=1)
        return torch.where(order.flatten() < self.labelled, classes, -1)


class OwnPoints(TensorSource):
    """Points of the user's own, each feature shifted and scaled to mean 0 and deviation 1 over the training points."""

    def __init__(self, x: Tensor, y: Tensor, form: PointForm) -> None:
        super().__init__(form.scaled(x), y)
        self.form = form


@register_task("points")
class Points(Task):
    """Classification of points by cross-entropy, of all at once or in batches."""

    Settings = PointsSettings
    Data = PointsData
    figures = (Figure("accuracy", "accuracy", "share", better="higher"), Figure("loss", "loss"))

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        self.form = (
            material.train.form if isinstance(material.train, OwnPoints) else PointForm.drawn(setup.data.classes)
        )
        self.record = None
        if isinstance(model, PointNetwork) and setup.settings.recorded_epochs:
            x = material.test.take(torch.arange(len(material.test)), setup.seed, 0)[0]
            rows = evenly_chosen(len(x), setup.settings.shown)
            self.record = FeatureRecord(model, x, rows, setup.settings.recorded_epochs)

    @classmethod
    def read(cls, data: PointsData, folder: Path | None) -> PointData | None:
        """Points are drawn, unless there is a file of them."""
        if not data.own:
            return None
        share = data.test if isinstance(data.test, float) else None
        if data.csv:
            return from_csv(existing("csv", data.csv, folder), label=data.label, test=share)
        found = read_archive(data.own, folder, share)
        if not isinstance(found, PointData):
            raise ConfigError(f"{data.own} has images, not points. Set task.name to classification.")
        return found

    @classmethod
    def material(cls, found: PointData | None, data: PointsData, seed: int) -> Material:
        if found is not None:
            return _own_material(found, data)
        sizes = (data.points, data.points, data.validation)
        seeds = [derive_seed(*key(Stream.POINTS, seed, part)) for part in range(len(sizes))]
        train, test, further = (TensorSource(*data.draw(*drawn)) for drawn in zip(seeds, sizes, strict=True))
        test = train if data.test == "same" else test
        train = TensorSource(train.columns[0], data.trained_classes(train.columns[1], seeds[-1]))
        return Material(
            data.kind, train, further if data.validation else test, test, origin="drawn from the seed", rows="points",
            example=_example(test), options={"num_classes": data.classes, "in_features": 2},
        )  # fmt: skip

    @classmethod
    def check_model(cls, name: str, options: Sequence[str]) -> None:
        if "in_features" not in options:
            raise ConfigError(f"{name!r} does not take points: it has no option in_features. Use point_resnet.")

    def turns(self, plan: Plan) -> list[Turn]:
        """One turn for the whole network, or two that alternate (block coordinate descent)."""
        settings, setup = self.setup.settings, self.setup
        if settings.head_optimizer is None:
            return super().turns(plan)
        head = [p for name, p in self.model.named_parameters() if name.startswith("head.") and p.requires_grad]
        rest = [p for p in trainable(self.model) if all(p is not other for other in head)]
        last = Turn(head, settings.head_optimizer, setup.schedule, name="head", every=settings.head_every)
        return [Turn(rest, setup.optimizer, setup.schedule), last]

    def objective(self, batch: Any, turn: str) -> tuple[Tensor, Sums]:
        answers, classes = self.model(batch[0]), batch[1]
        if self.setup.data.labelled is not None:
            answers, classes = answers[classes >= 0], classes[classes >= 0]
        smoothing = self.setup.settings.label_smoothing
        loss = F.cross_entropy(answers, classes, label_smoothing=smoothing)
        return loss, class_sums(answers, classes, None if smoothing else loss)

    def measure(self, batch: Any) -> Sums:
        return class_sums(self.model(batch[0]), batch[1])

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return class_figures(sums)

    def epoch_ends(self, watched: Mapping[str, Tensor]) -> bool:
        if self.record is not None:
            self.record.add(cast(PointNetwork, self.model))
        return False

    def conclude(self, test: Batches) -> Findings:
        found = super().conclude(test)
        if isinstance(self.model, PointNetwork):
            x, y = test.source.take(torch.arange(len(test.source)), test.seed, 0)
            rows = evenly_chosen(len(x), self.setup.settings.shown)
            path, labels = feature_path(self.model, x)[:, rows], y[rows].numpy()
            moments = self.model.moments()
            if path.isfinite().all():
                captions = moments if len(moments) == len(path) else []
                regions = decision_regions(self.model, 1.1 * x.abs().max().item(), self.setup.settings.grid)
                shown = Animation("Flow of the points", self._view(path), labels, *regions, captions=captions)
                found.animations.append(shown)
            if self.record is not None and self.record.count > 1:
                path = self.record.path().nan_to_num()
                captions = [f"epoch {k}" for k in range(len(path))]
                shown = Animation("Features while training", self._view(path), labels, captions=captions)
                found.animations.append(shown)
        return found

    def save_kept(self, folder: Path) -> None:
        self.form.save(folder)
        super().save_kept(folder)

    def _view(self, path: Tensor) -> np.ndarray:
        turning = self.setup.settings.projection == "turning" and path.shape[2] > 2
        return (turning_view(path) if turning else path[..., :2]).numpy()


def _own_material(found: PointData, data: PointsData) -> Material:
    """The user's own points; those for validation are taken from the training points, the same for all seeds."""
    x, y = found.train
    form = PointForm.of(x, found.columns, found.classes)
    further, rest = stratified(y, data.validation * len(found.classes), _SPLIT_SEED)
    train = OwnPoints(x[rest], y[rest], form)
    trained = torch.bincount(y[rest], minlength=len(found.classes)).tolist()
    test = train if data.test == "same" else OwnPoints(*found.test, form)
    options = {"num_classes": len(found.classes), "in_features": x.shape[1], "width": max(8, x.shape[1])}
    return Material(
        found.name, train, OwnPoints(x[further], y[further], form) if data.validation else test, test,
        origin=found.source, rows="points", example=_example(test), options=options, fingerprint=found.fingerprint,
        warning=unseen_warning(trained, found.class_counts()[1], found.classes),
    )  # fmt: skip


def _example(points: TensorSource) -> Tensor:
    return points.columns[0][:: -(-len(points) // 100)]
