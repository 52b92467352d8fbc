"""Transport of one density to another: optimal transport, mean field games, flow matching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from evolvent._core.checks import check_column
from evolvent._core.config import Config
from evolvent._core.errors import ConfigError
from evolvent.data import Batches, Density, DensityPairs, Material, make_density, normal
from evolvent.equations import Congestion, Obstacle, RunningCost, TransportFlow
from evolvent.equations.transport import Transported, VelocityField, at_time
from evolvent.networks import PotentialNetwork
from evolvent.tasks.findings import Figure, Findings
from evolvent.tasks.task import DataSettings, Setup, Sums, Task, TaskSettings, evaluating, register_task
from evolvent.tasks.transport_view import conclusions

Batch: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Points of the source, points of the target, and times."""

_LOOKED_AT = 1024  # points by which densities and obstacles are judged
_WAVES = 512  # whose means are compared at the end


class TransportSettings(TaskSettings):
    """What is minimised, and how finely time is divided."""

    name: str = "transport"
    objective: Literal["transport", "matching"] = Field(
        default="transport", description="costs along the flow, or conditional flow matching"
    )
    terminal: Literal["kl", "distance"] = Field(
        default="kl", description="how far the end is from the target: by its density, or by its points"
    )
    terminal_weight: float = Field(
        default=50.0, gt=0, description="weight of the terminal cost; that of the transport is 1"
    )
    hjb_weight: float = Field(default=1.0, ge=0, description="weight of the residual of the Hamilton-Jacobi equation")
    steps: int = Field(default=8, ge=1, description="time steps in training")
    test_steps: int | None = Field(default=None, ge=1, description="time steps in tests; as in training unless given")
    compared: int = Field(default=1000, ge=2, description="points compared with their exact transport at the end")
    shown: int = Field(default=240, ge=1, description="points in the animation")
    grid: int = Field(default=60, ge=2, description="pixels of densities along each axis")


class ObstacleSettings(Config):
    """A hill in the first coordinates that is costly to stand on."""

    height: float = Field(default=50.0, ge=0)
    centre: list[float] = Field(default=[0.0, 0.0], min_length=1)
    radius: float | list[float] = 1.0


class CongestionSettings(Config):
    """A price for being where others are."""

    weight: float = Field(default=0.1, ge=0)
    kind: Literal["entropy", "density"] = "entropy"


class TransportData(DataSettings):
    """From which density to which, and what the way costs besides."""

    source: str | dict[str, Any] = Field(default="gaussian", description="a density: its name, or name and options")
    target: str | dict[str, Any] = Field(default="gaussians", description="another density, likewise")
    dimension: int = Field(default=2, ge=1, description="dimension of points")
    obstacle: ObstacleSettings | None = None
    congestion: CongestionSettings | None = None
    points: int = Field(default=51200, ge=1, description="drawn anew in every epoch")
    tested: int = Field(default=4096, ge=2, description="points of the test")
    batch_size: int | None = Field(default=512, ge=2, description="points of a step")
    eval_batch_size: int | None = Field(default=1024, ge=2, description="points evaluated at a time")

    def densities(self) -> tuple[Density, Density]:
        """Source and target."""
        return self._density(self.source, "source"), self._density(self.target, "target")

    def _density(self, given: str | dict[str, Any], end: str) -> Density:
        options = {"name": given} if isinstance(given, str) else dict(given)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise ConfigError(f"data.{end} needs the name of a density, such as gaussian, got {given!r}.")
        return make_density(name, self.dimension, **options)

    def running(self) -> list[RunningCost]:
        """What the way costs besides its energy."""
        hill, crowd = self.obstacle, self.congestion
        costs: list[RunningCost] = [] if hill is None else [Obstacle(hill.height, hill.centre, hill.radius)]
        return costs if crowd is None else [*costs, Congestion(crowd.weight, crowd.kind)]


@register_task("transport")
class Transport(Task):
    r"""Trains a potential whose flow carries one density to another at the least cost.

    .. math:: \min_\Phi \mathbb E \Bigl[ \int_0^1 \tfrac 12 |\nabla \Phi|^2 + f(x, \varrho)\, dt \Bigr]
              + \alpha\, D(\varrho(1), \varrho_1) + \beta\, \mathbb E \int_0^1 |\partial_t \Phi
              - \tfrac 12 |\nabla \Phi|^2 + \delta f|\, dt, \qquad x' = -\nabla \Phi

    where D is the Kullback-Leibler divergence, or the energy distance of points. Onken et al. 2021; Ruthotto et al.
    2020. With ``objective: matching`` a velocity is trained to that of straight lines between random pairs instead
    (Lipman et al. 2023). Both are measured alike.
    """

    Settings = TransportSettings
    Data = TransportData
    figures = (
        Figure("mismatch", "terminal mismatch"),
        Figure("cost", "transport cost"),
        Figure("straightness", "straightness", "share", better="higher"),
        Figure("hjb", "HJB residual"),
        Figure("running", "running cost"),
        Figure("nll", "NLL"),
        Figure("kl", "Kullback-Leibler divergence", shown=False),
        Figure("inverse", "inverse error"),
        Figure("loss", "loss", shown=False),
    )

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        data: TransportData = setup.data
        self.source, self.target = data.densities()
        self.running = data.running()
        self.waves = _waves(self.target)
        settings: TransportSettings = setup.settings
        if settings.objective == "transport":
            self._check_objective(settings)
        elif self.running:
            raise ConfigError("flow matching has no running costs: leave out data.obstacle and data.congestion.")

    def _check_objective(self, settings: TransportSettings) -> None:
        if not isinstance(self.model, PotentialNetwork):
            raise ConfigError(
                f"task.objective: transport needs a potential, the network otflow, got {type(self.model).__name__}. "
                "Other velocities are trained by task.objective: matching."
            )
        if settings.terminal == "kl" and not self.target.known:
            raise ConfigError(
                "task.terminal: kl needs a target whose density is known everywhere, such as gaussian or gaussians. "
                "Exchange source and target, or set task.terminal: distance, which compares points."
            )
        if any(cost.needs_density for cost in self.running) and not self.source.known:
            raise ConfigError("data.congestion needs a source whose density is known, such as gaussian or gaussians.")

    @classmethod
    def read(cls, data: TransportData, folder: Path | None) -> None:
        """Points are drawn, not read."""
        source, target = data.densities()
        rows = torch.arange(_LOOKED_AT)
        starts, ends, _ = DensityPairs(source, target, _LOOKED_AT).take(rows, 0, 0)
        for density, points, place in ((source, starts, "source"), (target, ends, "target")):
            _check_density(density, points, place)
            for cost in data.running():
                _check_clear(cost, points, place)

    @classmethod
    def material(cls, found: None, data: TransportData, seed: int) -> Material:
        source, target = data.densities()
        train, test = DensityPairs(source, target, data.points, 0), DensityPairs(source, target, data.tested, 1)
        names = [one if isinstance(one, str) else one["name"] for one in (data.source, data.target)]
        title, origin = f"{names[0]} to {names[1]}", "drawn from the seed"
        return Material(title, train, test, test, origin, options={"in_features": data.dimension}, rows="points")

    @classmethod
    def check_model(cls, name: str, options: Sequence[str]) -> None:
        if name not in ("otflow", "velocity") and "rank" not in options:
            raise ConfigError(f"{name!r} does not move points in time. Use otflow, or velocity for flow matching.")

    def for_export(self, material: Material) -> tuple[nn.Module, Tensor]:
        """From place and time to what the network represents, a potential or a velocity."""
        return self.model, self.placed(torch.rand(2, material.options["in_features"] + 1))

    def flow(self, steps: int | None = None) -> TransportFlow:
        """The flow of the network, with as many steps as in training unless given."""
        return TransportFlow(self.model, steps or self.setup.settings.steps, self.running)

    def objective(self, batch: Batch, turn: str) -> tuple[Tensor, Sums]:
        loss, sums = self._matching(*batch) if self.setup.settings.objective == "matching" else self._costs(*batch[:2])
        if isinstance(self.model, PotentialNetwork):
            loss = loss + 0 * self.model.constant.sum()  # which moves nothing; processes average its gradient too
        sums["loss"] = loss.detach() * len(batch[0])
        return loss, sums

    def _costs(self, x: Tensor, y: Tensor) -> tuple[Tensor, Sums]:
        settings: TransportSettings = self.setup.settings
        sums, end = self._along(self.flow(), x, y)
        way = (sums["cost"] + sums["running"] + settings.hjb_weight * sums["hjb"]) / len(x)
        if settings.terminal == "distance":
            mismatch = energy_distance(end.points, y)
        else:
            mismatch = sums["kl" if self.source.known else "nll"] / len(x)
        loss = way + settings.terminal_weight * mismatch
        return loss, {name: value.detach() for name, value in sums.items()}

    def _matching(self, x: Tensor, y: Tensor, t: Tensor) -> tuple[Tensor, Sums]:
        velocity = cast(VelocityField, self.model).velocity(at_time(torch.lerp(x, y, t), t))
        return (velocity - (y - x)).square().sum(1).mean(), {"count": _count(x)}

    def _along(self, flow: TransportFlow, x: Tensor, y: Tensor) -> tuple[Sums, Transported]:
        """Sums over points that follow the flow, and where they end."""
        start = self.source.log_density(x) if self.source.known else None
        end = flow(x, start)
        sums = {
            "cost": end.cost.sum(), "running": end.running.sum(), "hjb": end.residual.sum(), "count": _count(x),
            "embedding": self._embedding(end.points, y), "displacement": (end.points - x).square().sum(),
        }  # fmt: skip
        if self.target.known:
            likelihood = self.target.log_density(end.points) + end.log_determinant
            sums["nll"] = -(likelihood if start is None else likelihood + start).sum()
            if start is not None:
                sums["kl"] = -likelihood.sum()
        return sums, end

    @torch.no_grad()
    def _embedding(self, ends: Tensor, y: Tensor) -> Tensor:
        """How the sums of random waves at the ends differ from those at points of the target."""
        first, second = (points @ self.waves.to(points) for points in (ends, y))
        return torch.cat([first.cos() - second.cos(), first.sin() - second.sin()], 1).sum(0)

    def measure(self, batch: Batch) -> Sums:
        x, y, _ = batch
        flow = self.flow(self.setup.settings.test_steps)
        sums, end = self._along(flow, x, y)
        back = flow.inverse(end.points).points
        return sums | {"inverse": torch.linalg.vector_norm(back - x, dim=1).sum()}

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """What was measured; a flow without potential has no residual, and one without running costs none."""
        mean = {name: value.item() / sums["count"].item() for name, value in sums.items() if value.ndim == 0}
        if "embedding" in sums:
            squares = (sums["embedding"] / sums["count"]).square().sum()
            mean["mismatch"] = (squares / self.waves.shape[1]).sqrt().item()
        if "cost" in mean:
            mean["straightness"] = mean["displacement"] / (2 * mean["cost"]) if mean["cost"] > 0 else float("nan")
        if not isinstance(self.model, PotentialNetwork):
            mean.pop("hjb", None)
        if not self.running:
            mean.pop("running", None)
        return {figure.name: mean[figure.name] for figure in self.figures if figure.name in mean}

    def conclude(self, test: Batches) -> Findings:
        figures = self.test_figures(test)
        with evaluating(self):
            settings: TransportSettings = self.setup.settings
            rows = torch.arange(min(len(test.source), settings.compared))
            x, y, _ = self.placed(test.source.take(rows, test.seed, 0))
            return conclusions(figures, self.flow(settings.test_steps), (x, y), self.source, self.target, settings)


def energy_distance(x: Tensor, y: Tensor) -> Tensor:
    r"""How far apart two densities are, from points of both; 0 only if they are the same.

    .. math:: 2\, \mathbb E |X - Y| - \mathbb E |X - X'| - \mathbb E |Y - Y'|

    Szekely, Rizzo 2013; unbiased, so that small values may be negative. Shape: (N, d) and (M, d) to one number.

    >>> energy_distance(torch.zeros(3, 1), torch.ones(4, 1))
    tensor(2.)
    """
    within = [_distances(points, points).sum() / (len(points) * max(1, len(points) - 1)) for points in (x, y)]
    return 2 * _distances(x, y).mean() - within[0] - within[1]


def _distances(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances of all pairs; those of equal points have gradient 0."""
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def _waves(target: Density) -> Tensor:
    """Frequencies (d, _WAVES) of a normal kernel as wide as the typical distance of two points of the target."""
    points = target.draw(torch.arange(_LOOKED_AT), 0)
    width = torch.pdist(points).median()
    index = torch.arange(target.dimension * _WAVES).view(target.dimension, _WAVES)
    return normal(index, 0) / width


def _count(x: Tensor) -> Tensor:
    return torch.tensor(len(x), device=x.device)


def _check_density(density: Density, points: Tensor, place: str) -> None:
    if points.shape != (len(points), density.dimension) or not points.isfinite().all():
        raise ConfigError(
            f"data.{place}: points drawn from a density must be finite and (N, {density.dimension}), got shape "
            f"{tuple(points.shape)}."
        )
    if not density.known:
        return
    logarithms = check_column(density.log_density(points), len(points), f"data.{place}: the log-density")
    if not logarithms.isfinite().all():
        raise ConfigError(
            f"data.{place}: the density is negative, 0 or infinite at points drawn from it, but must have a logarithm."
        )


def _check_clear(cost: RunningCost, points: Tensor, place: str) -> None:
    if not isinstance(cost, Obstacle):
        return
    if len(cost.centre) > points.shape[1]:
        raise ConfigError(
            f"data.obstacle has {len(cost.centre)} coordinates, points have {points.shape[1]}. Raise data.dimension."
        )
    covered = (cost.share(points) > 0.5).double().mean().item()
    if cost.height > 0 and covered > 0.5:
        raise ConfigError(
            f"data.obstacle covers the {place}: {covered:.0%} of its points lie on the upper half of the hill. Move "
            "the obstacle, make its radius smaller, or move the density."
        )
