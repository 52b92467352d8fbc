"""A tiny recipe on the digits that ship with scikit-learn, a task made for tests, and power cuts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent import load
from evolvent.data import Material, Source, TensorSource
from evolvent.experiments import engine
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import Recipe, overlay
from evolvent.experiments.record import read_metrics
from evolvent.tasks import (
    DataSettings,
    Figure,
    OptimizerConfig,
    Plan,
    Task,
    TaskSettings,
    Turn,
    register_task,
    trainable,
)


class PlaneSettings(TaskSettings):
    """Which optimisers train the network."""

    name: Literal["plane"] = "plane"
    turns: Literal["one", "alternating", "overlapping", "empty", "then lbfgs", "lbfgs", "none"] = "one"
    enough: float = 0.0  # the training ends when the watched error is below this


class PlaneData(DataSettings):
    """Points of the plane, in rows or all in one row."""

    rows: int = 24
    validation: int = 0
    whole: bool = False


class WholeSource(Source):
    """One row that holds all points, as a graph does."""

    shareable = False

    def __init__(self, points: TensorSource) -> None:
        self.points = points

    def __len__(self) -> int:
        return 1

    def take(self, rows: Tensor, seed: int, epoch: int) -> Any:
        return self.points.take(torch.arange(len(self.points)), seed, epoch)


@register_task("plane")
class Plane(Task):
    """Learns a quadratic function of points that are drawn from the seed."""

    Settings, Data = PlaneSettings, PlaneData
    figures = (Figure("error", "mean squared error"),)

    @classmethod
    def read(cls, data: PlaneData, folder: Path | None) -> None:
        """Points are drawn."""

    @classmethod
    def material(cls, found: None, data: PlaneData, seed: int) -> Material:
        draw = torch.Generator().manual_seed(seed)
        parts = [torch.rand(count, 2, generator=draw) for count in (data.rows, data.validation, 8)]
        sources: list[Source] = [TensorSource(x, x.square().sum(1, keepdim=True)) for x in parts]
        if data.whole:
            sources = [WholeSource(source) if len(source) else source for source in sources]  # pyright: ignore
        train, watched, test = sources
        options = {"num_classes": 1, "in_features": 2}
        return Material("plane", train, watched if data.validation else test, test, options=options, rows="points")

    def turns(self, plan: Plan) -> list[Turn]:
        head, rest = trainable(self.model.head), trainable(self.model.evolution)  # pyright: ignore
        both, adam = [*rest, *head], OptimizerConfig(name="adam", lr=0.01)
        lbfgs = OptimizerConfig(name="lbfgs", lr=1.0, iterations=4, history=5)
        half = (plan.steps or 2) // 2
        match self.setup.settings.turns:
            case "alternating":
                return [Turn(rest, adam), Turn(head, self.setup.optimizer, name="head", every=2, since=1, until=5)]
            case "overlapping":
                return [Turn(both, adam), Turn(head, adam, name="head")]
            case "empty":
                return [Turn(both, adam), Turn([], adam, name="nobody")]
            case "then lbfgs":
                return [Turn(both, adam, until=half), Turn(both, lbfgs, name="finish", since=half)]
            case "lbfgs":
                return [Turn(both, lbfgs)]
            case "none":
                return []
        return super().turns(plan)

    def epoch_ends(self, watched: Any) -> bool:
        return self.figures_of(watched)["error"] < self.setup.settings.enough

    def objective(self, batch: Any, turn: str) -> tuple[Tensor, dict[str, Tensor]]:
        sums = self.measure(batch)
        return sums["error"] / sums["rows"], sums

    def measure(self, batch: Any) -> dict[str, Tensor]:
        x, y = (part.to(next(self.parameters())) for part in batch)
        return {"error": F.mse_loss(self.model(x), y, reduction="sum"), "rows": torch.tensor(len(x))}

    def figures_of(self, sums: Any) -> dict[str, float]:
        return {"error": (sums["error"] / sums["rows"]).item()}


_TINY = {
    "name": "tiny",
    "title": "Tiny",
    "question": "Does it run?",
    "model": {"name": "hamiltonian", "options": {"channels": [4, 8], "blocks": 1, "step_size": 0.2, "dropout": 0.3}},
    "data": {"name": "digits", "batch_size": 48, "fraction": 0.2, "augment": {"pad": 1, "flip": True}},
    "task": {"smoothness": 1e-4, "label_smoothing": 0.1},
    "optimizer": {"lr": 0.05},
    "schedule": {"name": "cosine", "warmup": 0.5},
    "training": {"epochs": 2},
}
_PLANE = {
    "name": "plane",
    "title": "Plane",
    "question": "Does it run?",
    "model": {"name": "point_resnet", "options": {"width": 4, "layers": 2}},
    "data": {"batch_size": 8},
    "task": {"name": "plane"},
    "optimizer": {"lr": 0.05},
    "training": {"epochs": 3},
}


@pytest.fixture
def tiny() -> Callable[..., Recipe]:
    """Builds a recipe of five steps an epoch that trains in a second; keyword arguments are laid over it."""
    return lambda **changes: Recipe.read(overlay(_TINY, changes), "test")


@pytest.fixture
def plane() -> Callable[..., Recipe]:
    """Builds a recipe of the task above, of three steps an epoch; keyword arguments are laid over it."""
    return lambda **changes: Recipe.read(overlay(_PLANE, changes), "test")


class PowerCut(Observer):
    """Ends a training after so many steps, or at the end of an epoch."""

    interval = 0.0

    def __init__(self, step: int = 10**9, epoch: int = 10**9) -> None:
        self.step, self.epoch = step, epoch

    def cell_progresses(self, cell, progress) -> None:
        if progress.step == self.step or (progress.epoch == self.epoch and progress.epoch_ends):
            raise RuntimeError("power cut")

    @property
    def expected(self) -> AbstractContextManager[Any]:
        return pytest.raises(RuntimeError, match="power cut")


@pytest.fixture
def power_cut() -> type[PowerCut]:
    return PowerCut


def _weights(folder: Path) -> dict[str, Tensor]:
    return load(folder / "model").state_dict()


def _assert_same_run(one: Path, other: Path) -> None:
    expected, found = _weights(one), _weights(other)
    assert all(torch.equal(expected[key], found[key]) for key in expected)
    rows, others = (read_metrics(folder / "metrics.csv") for folder in (one, other))
    assert rows.keys() == others.keys()
    for column in set(rows) - {"seconds", "rows_per_second"}:
        assert rows[column] == others[column], column


@pytest.fixture
def assert_same_run() -> Callable[[Path, Path], None]:
    """Asserts that two runs kept bitwise the same model and measured the same figures."""
    return _assert_same_run


@pytest.fixture
def count_networks(monkeypatch) -> list[str]:
    """Names of the networks that the engine has built since."""
    built: list[str] = []

    def create(name: str, **options: Any) -> nn.Module:
        built.append(name)
        return real(name, **options)

    real = engine.create_model
    monkeypatch.setattr(engine, "create_model", create)
    return built
