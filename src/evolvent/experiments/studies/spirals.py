"""Interleaved spirals: how residual, antisymmetric and Hamiltonian flows of the same size untangle them."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from evolvent._core.config import Config
from evolvent._core.randomness import derive_seed
from evolvent.analysis import perturbation_growth
from evolvent.experiments.studies.result import Animation, Curve, Regions, StudyResult, Table, Tell
from evolvent.networks import PointNetwork, create_model

FAMILIES = {"residual": "residual", "antisymmetric": "antisymmetric", "hamiltonian": "Hamiltonian"}  # option: name


class Settings(Config):
    """The data, the network and its training."""

    classes: int = Field(default=2, ge=2, le=8)
    points: int = Field(default=250, ge=2, description="of each class, for training, and as many for testing")
    turns: float = Field(default=2.0, gt=0)
    noise: float = Field(default=0.02, ge=0, description="standard deviation; the spirals fill the unit disc")
    width: int = Field(default=8, ge=2, multiple_of=2)
    layers: int = Field(default=16, ge=1, description="of the residual network")
    end_time: float = Field(default=4.0, gt=0)
    damping: float = Field(default=0.1, ge=0)
    epochs: int = Field(default=500, ge=1)
    learning_rate: float = Field(default=0.02, gt=0)
    projection: Literal["features", "turning"] = Field(
        default="turning", description="the first two features, or a view that turns from them to the principal plane"
    )
    shown: int = Field(default=240, ge=1, description="test points in the animation")
    grid: int = Field(default=60, ge=2, description="pixels of the decision regions along each axis")


def run(settings: Settings, seed: int, tell: Tell) -> StudyResult:
    train, test = (make_spirals(settings, derive_seed(seed, k)) for k in range(2))
    rows, losses, accuracies, animations = [], {}, {}, []
    for k, (family, name) in enumerate(FAMILIES.items()):
        model = _network(settings, family, derive_seed(seed, 2))
        history = _train(model, settings, train, test, lambda share, k=k, name=name: tell((k + share) / 3, name))
        losses[name], accuracies[name] = (history["epoch"], history["loss"]), (history["epoch"], history["accuracy"])
        rows.append(_row(name, model, train, test))
        animations.append(_animation(name, model, settings, test))
    columns = ["dynamics", "parameters", "layers", "test accuracy", "training loss", "growth: random", "growth: worst"]
    return StudyResult(
        answer=_answer(rows),
        tables=[
            Table(
                "After training; growth is that of a small perturbation of the features, from start to end",
                columns,
                rows,
            )
        ],
        curves=[
            Curve("Training loss", "epoch", "cross-entropy", losses, log_y=True),
            Curve("Test accuracy", "epoch", "share of test points", accuracies),
        ],
        animations=animations,
    )


def make_spirals(settings: Settings, seed: int) -> tuple[Tensor, Tensor]:
    """Points (classes * points, 2) in the unit disc and their classes."""
    generator = torch.Generator().manual_seed(seed)
    radius = torch.rand(settings.classes, settings.points, generator=generator).sqrt()
    arm = torch.arange(settings.classes)[:, None]
    angle = 2 * math.pi * (settings.turns * radius + arm / settings.classes)
    x = (0.1 + 0.9 * radius)[..., None] * torch.stack((angle.cos(), angle.sin()), dim=-1)
    x = x + settings.noise * torch.randn(x.shape, generator=generator)
    return x.flatten(0, 1), arm.expand_as(radius).flatten()


def _network(settings: Settings, family: str, seed: int) -> PointNetwork:
    """A network of one family; Hamiltonian layers have fewer parameters, so it has more of them in the same time."""
    width, layers = settings.width, settings.layers
    if family == "hamiltonian":
        layers = max(1, round(layers * (width**2 + width) / (width**2 / 2 + width)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = create_model(
            "point_resnet", num_classes=settings.classes, width=width, layers=layers, dynamics=family,
            step_size=settings.end_time / layers, damping=settings.damping,
        )  # fmt: skip
    assert isinstance(model, PointNetwork)
    return model


def _train(
    model: PointNetwork, settings: Settings, train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], tell: Any
) -> dict[str, list[float]]:
    """Full-batch Adam; loss and test accuracy every so many epochs."""
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs)
    history: dict[str, list[float]] = {"epoch": [], "loss": [], "accuracy": []}
    every = max(1, settings.epochs // 50)
    for epoch in range(settings.epochs):
        loss = F.cross_entropy(model(train[0]), train[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if epoch % every == 0 or epoch == settings.epochs - 1:
            for key, value in (("epoch", epoch + 1), ("loss", loss.item()), ("accuracy", accuracy(model, *test))):
                history[key].append(value)
            tell(epoch / settings.epochs)
    return history


@torch.no_grad()
def accuracy(model: torch.nn.Module, x: Tensor, y: Tensor) -> float:
    """Share of points whose class is found."""
    return (model(x).argmax(dim=1) == y).double().mean().item()


@torch.no_grad()
def _row(name: str, model: PointNetwork, train: Any, test: Any) -> list[str | int | float]:
    parameters = sum(p.numel() for p in model.parameters())
    loss = F.cross_entropy(model(train[0]), train[1]).item()
    growth = perturbation_growth(model.evolution, model.lift(test[0][::5]), points=2)
    figures = [accuracy(model, *test), loss, float(growth.random[-1]), float(growth.worst[-1])]
    return [name, parameters, model.evolution.steps, *figures]


@torch.no_grad()
def _animation(name: str, model: PointNetwork, settings: Settings, test: tuple[Tensor, Tensor]) -> Animation:
    x, y = (part[torch.linspace(0, len(part) - 1, min(settings.shown, len(part))).long()] for part in test)
    path = torch.stack(model.trajectories(x)[0])  # (T, N, width)
    if settings.projection == "turning":
        path = _turning_view(path)
    reach = 1.1
    line = torch.linspace(-reach, reach, settings.grid)
    plane = torch.cartesian_prod(line, line).flip(1)  # rows go up, columns to the right
    classes = model(plane).argmax(dim=1).view(settings.grid, settings.grid)
    regions = Regions(classes.numpy(), (-reach, reach, -reach, reach))
    return Animation(f"Flow of the {name} network", path[..., :2].numpy(), y.numpy(), regions)


def _turning_view(path: Tensor) -> Tensor:
    """A plane that turns, from that of the first two features to the one in which the points differ most at the end.

    Shape: (T, N, width) to (T, N, 2).
    """
    first = torch.eye(path.shape[2])[:, :2]
    last = torch.linalg.svd(path[-1] - path[-1].mean(dim=0), full_matrices=False).Vh[:2].T
    last = last @ _nearest_rotation(last.T @ first)
    shares = torch.linspace(0, 1, len(path))
    planes = [_nearest_rotation((1 - s) * first + s * last) for s in shares]
    return torch.stack([u @ plane for u, plane in zip(path, planes, strict=True)])


def _nearest_rotation(matrix: Tensor) -> Tensor:
    """The matrix with orthonormal columns that is nearest to a given one."""
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    return u @ vh


def _answer(rows: list[list[Any]]) -> str:
    shares = ", ".join(f"{row[0]} {100 * row[3]:.1f} %" for row in rows)
    least = min(rows, key=lambda row: row[6])
    counts = sorted(row[1] for row in rows)
    return (
        f"Networks of {counts[0]:,} to {counts[-1]:,} parameters put these shares of the test points on the right "
        f"spiral: {shares}; the worst perturbation grows least in the {least[0]} flow, {least[6]:.2g}-fold."
    )
