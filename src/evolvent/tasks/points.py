"""Classes of points of the plane: the network's flow moves the points until straight lines separate the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent._core.randomness import Stream, derive_seed, key
from evolvent.data import Batches, Material, PointCloud, TensorSource
from evolvent.networks import PointNetwork
from evolvent.tasks.accuracy import class_figures, class_sums
from evolvent.tasks.findings import Animation, Figure, Findings
from evolvent.tasks.flow_view import FeatureRecord, decision_regions, evenly_chosen, feature_path, turning_view
from evolvent.tasks.optimizers import OptimizerConfig
from evolvent.tasks.task import DataSettings, Plan, Setup, Sums, Task, TaskSettings, Turn, register_task, trainable


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
    """Which points, new ones for each seed: for training, as many for testing, and perhaps some for validation."""

    test: Literal["drawn", "same"] = Field(default="drawn", description="further points, or those of the training")
    labelled: int | None = Field(default=None, ge=1, description="points of each class whose class is trained on; all")
    validation: int = Field(
        default=0, ge=0, le=10**8, description="points of each class by which the best model is chosen"
    )

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


@register_task("points")
class Points(Task):
    """Classification of points by cross-entropy, of all at once or in batches."""

    Settings = PointsSettings
    Data = PointsData
    figures = (Figure("accuracy", "accuracy", "share", better="higher"), Figure("loss", "loss"))

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        self.record = None
        if isinstance(model, PointNetwork) and setup.settings.recorded_epochs:
            x = material.test.take(torch.arange(len(material.test)), setup.seed, 0)[0]
            rows = evenly_chosen(len(x), setup.settings.shown)
            self.record = FeatureRecord(model, x, rows, setup.settings.recorded_epochs)

    @classmethod
    def read(cls, data: PointsData, folder: Path | None) -> None:
        """Points are drawn, not read."""

    @classmethod
    def material(cls, found: None, data: PointsData, seed: int) -> Material:
        sizes = (data.points, data.points, data.validation)
        seeds = [derive_seed(*key(Stream.POINTS, seed, part)) for part in range(len(sizes))]
        train, test, further = (TensorSource(*data.draw(*drawn)) for drawn in zip(seeds, sizes, strict=True))
        test = train if data.test == "same" else test
        train = TensorSource(train.columns[0], data.trained_classes(train.columns[1], seeds[-1]))
        return Material(
            data.kind, train, further if data.validation else test, test, origin="drawn from the seed", rows="points",
            example=test.columns[0][:: -(-len(test) // 100)], options={"num_classes": data.classes, "in_features": 2},
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
            if path.isfinite().all():
                regions = decision_regions(self.model, 1.1 * x.abs().max().item(), self.setup.settings.grid)
                found.animations.append(Animation("Flow of the points", self._view(path), labels, *regions))
            if self.record is not None and self.record.count > 1:
                path = self.record.path().nan_to_num()
                captions = [f"epoch {k}" for k in range(len(path))]
                shown = Animation("Features while training", self._view(path), labels, captions=captions)
                found.animations.append(shown)
        return found

    def _view(self, path: Tensor) -> np.ndarray:
        turning = self.setup.settings.projection == "turning" and path.shape[2] > 2
        return (turning_view(path) if turning else path[..., :2]).numpy()
