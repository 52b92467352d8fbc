"""Classes of points of the plane: the network's flow moves the points until straight lines separate the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent._core.randomness import Stream, derive_seed, key
from evolvent.data import Batches, Material, PointCloud, TensorSource
from evolvent.networks import PointNetwork
from evolvent.tasks.accuracy import class_figures, class_sums
from evolvent.tasks.findings import Animation, Figure, Findings
from evolvent.tasks.optimizers import OptimizerConfig
from evolvent.tasks.task import DataSettings, Plan, Sums, Task, TaskSettings, Turn, evaluating, register_task, trainable


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
    projection: Literal["features", "turning"] = Field(
        default="turning", description="the first two features, or a view that turns from them to the principal plane"
    )


class PointsData(PointCloud, DataSettings):
    """Which points, new ones for each seed: for training, as many for testing, and perhaps some for validation."""

    validation: int = Field(default=0, ge=0, description="points of each class by which the best model is chosen")


@register_task("points")
class Points(Task):
    """Classification of points by cross-entropy, of all at once or in batches."""

    Settings = PointsSettings
    Data = PointsData
    figures = (Figure("accuracy", "accuracy", "share", better="higher"), Figure("loss", "loss"))

    @classmethod
    def read(cls, data: PointsData, folder: Path | None) -> None:
        """Points are drawn, not read."""

    @classmethod
    def material(cls, found: None, data: PointsData, seed: int) -> Material:
        sizes = (data.points, data.points, data.validation)
        seeds = [derive_seed(*key(Stream.POINTS, seed, part)) for part in range(len(sizes))]
        train, test, further = (TensorSource(*data.draw(*drawn)) for drawn in zip(seeds, sizes, strict=True))
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
        answers = self.model(batch[0])
        smoothing = self.setup.settings.label_smoothing
        loss = F.cross_entropy(answers, batch[1], label_smoothing=smoothing)
        return loss, class_sums(answers, batch[1], None if smoothing else loss)

    def measure(self, batch: Any) -> Sums:
        return class_sums(self.model(batch[0]), batch[1])

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        return class_figures(sums)

    def conclude(self, test: Batches) -> Findings:
        found, count = super().conclude(test), len(test.source)
        if isinstance(self.model, PointNetwork):
            rows = torch.linspace(0, count - 1, min(self.setup.settings.shown, count)).long()
            x, y = test.source.take(rows, test.seed, 0)
            path = _path(self.model, x)
            if path.isfinite().all():
                found.animations.append(self._flow(path, x.abs().max().item(), y))
        return found

    def _flow(self, path: Tensor, size: float, y: Tensor) -> Animation:
        """The paths of the points, and the class that the network gives to each point of their plane."""
        settings, reach = self.setup.settings, 1.1 * size
        line = torch.linspace(-reach, reach, settings.grid)
        plane = torch.cartesian_prod(line, line).flip(1)  # rows go up, columns to the right
        with evaluating(self):
            regions = self.model(self.placed(plane)).argmax(dim=1).view(settings.grid, settings.grid).cpu().numpy()
        frames = turning_view(path) if settings.projection == "turning" else path[..., :2]
        return Animation("Flow of the points", frames.numpy(), y.numpy(), regions, (-reach, reach, -reach, reach))


def _path(model: PointNetwork, x: Tensor) -> Tensor:
    """Features (T, N, width) through time; a learnt lift is preceded by the points themselves."""
    with evaluating(model):
        path = torch.stack(model.trajectories(x.to(next(model.parameters())))[0]).float().cpu()
    path = F.pad(path, (0, max(0, 2 - path.shape[2])))
    start = F.pad(x, (0, path.shape[2] - 2))[None]
    return path if torch.allclose(path[:1], start) else torch.cat((start, path))


def turning_view(path: Tensor) -> Tensor:
    """A plane that turns, from that of the first two features to the one in which the points differ most at the end.

    Shape: (T, N, width) to (T, N, 2).
    """
    first = torch.eye(path.shape[2])[:, :2]
    last = torch.linalg.svd(path[-1] - path[-1].mean(dim=0), full_matrices=False).Vh[:2].T
    last = last @ _nearest_rotation(last.T @ first)
    planes = [_nearest_rotation((1 - s) * first + s * last) for s in torch.linspace(0, 1, len(path))]
    return torch.stack([u @ plane for u, plane in zip(path, planes, strict=True)])


def _nearest_rotation(matrix: Tensor) -> Tensor:
    """The matrix with orthonormal columns that is nearest to a given one."""
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    return u @ vh
