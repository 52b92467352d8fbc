"""The deep BSDE method: one value of the solution of an equation in many dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import torch
from pydantic import Field
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent.data import BrownianPaths, Material
from evolvent.equations import SEMILINEAR, SemilinearProblem
from evolvent.networks import BsdeNetwork
from evolvent.tasks.findings import Figure
from evolvent.tasks.task import DataSettings, Setup, Sums, Task, TaskSettings, register_task

_GUESSED = 2048  # paths for first guesses of sizes
_CONSTANT = 1e-6  # variation relative to the size, below which it is rounding


class BsdeSettings(TaskSettings):
    """There is nothing to set."""

    name: str = "bsde"


class BsdeData(DataSettings):
    """Which equation, and how many paths."""

    problem: str = Field(description="name of a semilinear problem")
    dimension: int = Field(default=100, ge=1, description="dimension of the space of x")
    steps: int | None = Field(
        default=None, ge=1, description="time steps; those that the problem is usually solved with unless given"
    )
    paths: int = Field(default=6400, ge=1, description="drawn anew in every epoch")
    tested: int = Field(default=4096, ge=1, description="paths of the test")
    batch_size: int | None = Field(default=64, ge=1, description="paths of a step")
    eval_batch_size: int | None = Field(default=1024, ge=1, description="paths evaluated at a time")

    def make(self) -> SemilinearProblem:
        """The problem."""
        return SEMILINEAR.get(self.problem)(dimension=self.dimension)

    def drawn(self, problem: SemilinearProblem, count: int, part: int) -> BrownianPaths:
        """Paths of its motion."""
        return BrownianPaths(count, self.steps or problem.steps, problem.dimension, problem.until, part)


@register_task("bsde")
class Bsde(Task):
    r"""Trains :math:`u(0, \xi)` and :math:`z(t, x)` until paths end where the terminal value says.

    .. math:: \min \mathbb E\, |u_N - g(X_T)|^2, \qquad u_{n+1} = u_n - f(t_n, X_n, u_n, z_n) h + z_n \cdot \Delta W_n

    Han, Jentzen, E 2018, eqs. 5 to 7. Paths do not depend on the solution, so the network sees all steps at once.
    """

    Settings = BsdeSettings
    Data = BsdeData
    figures = (
        Figure("error", "relative error of the value", "share", better="lower"),
        Figure("value", "value at the start", better=None),
        Figure("mismatch", "relative mismatch at the end", better="lower"),
    )

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        self.problem = setup.data.make()
        reference = self.problem.reference
        self.expected = float("nan") if reference is None else reference()
        self.network = cast(BsdeNetwork, model)

    @classmethod
    def read(cls, data: BsdeData, folder: Path | None) -> None:
        """Paths are drawn, not read."""
        data.make()

    @classmethod
    def material(cls, found: None, data: BsdeData, seed: int) -> Material:
        problem = data.make()
        train, test = data.drawn(problem, data.paths, 0), data.drawn(problem, data.tested, 1)
        ends = problem.paths(data.drawn(problem, _GUESSED, 2).take(torch.arange(_GUESSED), seed, 0).transpose(0, 1))[-1]
        problem.check_columns(ends)
        values = problem.terminal(ends)
        options = {
            "in_features": problem.dimension, "until": problem.until, "centre": ends.mean().item(),
            "spread": ends.std().item(), "value": values.mean().item(), "variation": _variation(values),
        }  # fmt: skip
        origin = "drawn from the seed"
        return Material(problem.title or problem.name, train, test, test, origin, options=options, rows="paths")

    @classmethod
    def check_model(cls, name: str, options: Sequence[str]) -> None:
        if "variation" not in options:
            raise ConfigError(f"{name!r} does not represent a value and a gradient. Use bsde.")

    def for_export(self, material: Material) -> tuple[nn.Module, Tensor]:
        """From time and place to the value at the start and the gradient."""
        return self.model, self.placed(torch.rand(2, 1 + self.problem.dimension))

    def mismatch(self, increments: Tensor) -> Tensor:
        """How far the solution ends from the terminal value, relative to its variation.

        Shape: (B, steps, dimension) to (B, 1).
        """
        increments = increments.transpose(0, 1)
        paths, steps = self.problem.paths(increments), len(increments)
        times = torch.arange(steps, dtype=paths.dtype, device=paths.device) * (self.problem.until / steps)
        rows = torch.cat([times[:, None, None].expand(*paths[:-1].shape[:2], 1), paths[:-1]], 2)
        found = self.model(rows.flatten(0, 1)).unflatten(0, rows.shape[:2])
        end = self.problem.along(found[0, 0, 0], found[..., 1:], paths, increments)
        return (end - self.problem.terminal(paths[-1])) / self.network.options.variation

    def objective(self, batch: Tensor, turn: str) -> tuple[Tensor, Sums]:
        loss = self.mismatch(batch).square().mean()
        return loss, self._sums(loss * len(batch), batch)

    def measure(self, batch: Tensor) -> Sums:
        return self._sums(self.mismatch(batch).square().sum(), batch)

    def _sums(self, squares: Tensor, batch: Tensor) -> Sums:
        return {"squares": squares.detach(), "count": torch.tensor(len(batch), device=squares.device)}

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        value = self.network.value.item()
        return {
            "error": abs(value / self.expected - 1) if self.expected else math.nan,
            "value": value,
            "mismatch": (sums["squares"] / sums["count"]).sqrt().item(),
        }

    def load_kept(self, folder: Path) -> None:
        super().load_kept(folder)
        self.network = cast(BsdeNetwork, self.model)


def _variation(values: Tensor) -> float:
    """How far values differ from each other; their size if they are all the same."""
    variation, size = values.std().item(), values.abs().mean().item()
    return variation if variation > _CONSTANT * size else size or 1.0
