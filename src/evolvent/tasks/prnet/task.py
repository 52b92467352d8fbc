"""The task of PR-Net: classes, initial condition and governing equation, trained in turns (Kim et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor, nn

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError
from evolvent._core.randomness import Stream, derive_seed, key
from evolvent.data import Batches, ImageBatch, Material
from evolvent.equations import GoverningEquation, polynomial_terms
from evolvent.networks import COORDINATES, solution_blocks
from evolvent.tasks.classification import Classification, ClassificationSettings
from evolvent.tasks.findings import Figure, Findings
from evolvent.tasks.optimizers import OptimizerConfig
from evolvent.tasks.prnet.checks import check_coefficients, check_derivatives, check_losses, warn_if_drowned
from evolvent.tasks.prnet.losses import (
    Entered,
    derivatives,
    governing_loss,
    initial_loss,
    observed,
    training_only,
)
from evolvent.tasks.prnet.reading import equation_tables, load_equation, save_equation, sentence, share_explained
from evolvent.tasks.schedules import ScheduleConfig
from evolvent.tasks.task import Setup, Sums, evaluating, register_task, trainable
from evolvent.tasks.turns import Plan, Turn

_LOOKED_AT = 500  # test images on which the equation is judged
_PARTS = ("initial", "governing", "sparsity")


class PartSettings(Config):
    """How the points or the coefficients of the equation are trained."""

    optimizer: OptimizerConfig = OptimizerConfig(name="adam", lr=1e-3)
    schedule: ScheduleConfig | None = Field(
        default=None, description="schedule of its learning rate; the recipe's if null"
    )
    epochs: int = Field(default=1, ge=1, description="trained in the first epoch of this many")
    every: int = Field(default=1, ge=1, description="trained on one batch of this many in those epochs")

    def turn(self, name: str, parameters: list[nn.Parameter], plan: Plan, schedule: ScheduleConfig) -> Turn:
        during = (plan.epoch_steps, self.epochs * plan.epoch_steps) if self.epochs > 1 else None
        return Turn(parameters, self.optimizer, self.schedule or schedule, name=name, every=self.every, during=during)


class PRNetSettings(ClassificationSettings):
    """One class for each image, by a network that solves an equation learned at the same time."""

    name: str = "prnet"
    initial: float = Field(default=1.0, ge=0, description="weight of the loss of the initial condition, L_I")
    governing: float = Field(default=1.0, ge=0, description="weight of the loss of the governing equation, L_G")
    sparsity: float = Field(default=2e-5, ge=0, description="weight w of the coefficients' sizes, R_G")
    share: float = Field(
        default=1.0, gt=0, le=1, description="share of a batch's images on which L_I and L_G are taken"
    )
    powers: int = Field(default=3, ge=0, description="highest power of the features in the equation")
    orders: int = Field(default=3, ge=1, description="highest derivative in the equation")
    start: float = Field(default=0.0, ge=0, description="spread of the first coefficients; 0 begins with h_t = 0")
    fused: bool = Field(
        default=True,
        description="one step for all weights with all losses; else a step with L_T and one with all losses",
    )
    points: PartSettings | None = Field(
        default=PartSettings(), description="training of the points H; null: not trained"
    )
    equation: PartSettings = Field(default=PartSettings(), description="training of the coefficients alpha")
    kept_above: float = Field(default=1e-3, ge=0, description="terms with smaller coefficients are not printed")


@register_task("prnet")
class PRNet(Classification):
    r"""Trains a classifier whose features :math:`h(d, t) = f(h(0), d, t; \theta)` solve an equation, and the equation.

    .. math::
        \min_\theta\, L_T + L_I + L_G, \quad
        L_I = \overline{|f(h(0), d, 0) - h(0)|^2}, \quad
        L_G = \overline{|h_t - \textstyle\sum_{ij} \alpha_{ij} h^i \partial_d^j h|^2}, \quad
        \min_\alpha\, L_G + w \textstyle\sum |\alpha_{ij}|

    Kim et al. 2022, eqs. 6 to 9 and Algorithm 1. In turns: :math:`\theta`, stem and head; the points :math:`H` with
    :math:`L_T`; the coefficients :math:`\alpha`. Stem and head, :math:`h(0)` and :math:`H` have no gradient of
    :math:`L_I` and :math:`L_G`. Algorithm 1 makes two steps with :math:`\theta`, with :math:`L_T` and with all
    losses; by default they are one, since the second contains :math:`L_T` (``fused``).

    Derivatives are those of a shift of a coordinate at all pixels. Coefficients begin at 0, or at random (``start``).
    They are not part of the network; they lie in ``equation.json`` beside the kept model, and findings print them.
    """

    Settings = PRNetSettings
    figures = (
        *Classification.figures,
        Figure("initial", "loss of the initial condition"),
        Figure("governing", "loss of the governing equation"),
        Figure("sparsity", "sparsity term"),
    )

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        if not solution_blocks(model):
            raise ConfigError(
                "task.name prnet trains networks with a solution block, such as prnet_mnist and prnet_mobile. "
                "Use task.name classification for others."
            )
        settings = setup.settings
        terms = polynomial_terms(COORDINATES[:2], settings.powers, settings.orders, symbol="h")
        self.equation = GoverningEquation(terms, symbol="h")
        draw = torch.Generator().manual_seed(derive_seed(*key(Stream.COEFFICIENTS, setup.seed)))
        nn.init.normal_(self.equation.alpha, std=settings.start, generator=draw)
        self._epoch: list[tuple[Tensor, Tensor]] = []  # losses of its steps, for a warning; nothing is trained by them
        self._warned = False
        if material.example is not None and settings.governing:
            with evaluating(self):
                check_derivatives(self.equation, derivatives(self.equation, self._entered(material.example)))

    def turns(self, plan: Plan) -> list[Turn]:
        setup, settings = self.setup, self.setup.settings
        weights, points, _ = self._parameters_by_turn()
        objectives = () if settings.fused else ("task", "solution")
        found = [Turn(weights, setup.optimizer, setup.schedule, objectives=objectives)]
        if settings.points is not None:
            found.append(settings.points.turn("points", points, plan, setup.schedule))
        if settings.governing:
            found.append(settings.equation.turn("equation", [self.equation.alpha], plan, setup.schedule))
        return found

    def objective(self, batch: ImageBatch, turn: str) -> tuple[Tensor, Sums]:
        images, labels = self.as_trained(batch)
        if turn == "equation":
            return self._equation_objective(images)
        weights, points, solution = self._parameters_by_turn()
        with training_only(self, {"points": points, "solution": solution}.get(turn, weights)):
            logits, entered = observed(self.model, images)
            loss, sums = self.judged(logits, labels)
            if turn in ("network", "solution"):
                added, parts = self._solution_loss(entered)
                self._epoch.append((loss.detach(), parts["governing"]))
                loss, sums = loss + added, sums | {name: part * sums["count"] for name, part in parts.items()}
        return loss, sums

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        known = {name: (sums[name] / sums["count"].clamp_min(1)).item() for name in _PARTS if name in sums}
        return super().figures_of(sums) | known

    def epoch_ends(self, watched: Mapping[str, Tensor]) -> bool:
        check_coefficients(self.equation)
        if self._epoch:
            loss, governing = torch.tensor(self._epoch).mean(0).tolist()
            self._warned = self._warned or warn_if_drowned(loss, self.setup.settings.governing * governing)
        self._epoch = []
        return super().epoch_ends(watched)

    def conclude(self, test: Batches) -> Findings:
        found = super().conclude(test)
        if not self.setup.settings.governing:
            return found
        images = self.placed(test.source.take(torch.arange(min(_LOOKED_AT, len(test.source))), test.seed, 0)).images
        with evaluating(self):
            entered = self._entered(self.preprocess(images))
            along = derivatives(self.equation, entered)
            share, threshold = share_explained(self.equation, along), self.setup.settings.kept_above
            losses = {
                "initial": initial_loss(entered),
                "governing": governing_loss(self.equation, along, fixed=True),
                "sparsity": self.setup.settings.sparsity * self.equation.l1(),
            }
        return replace(
            found,
            figures={**found.figures, **{name: loss.item() for name, loss in losses.items()}},
            answer=sentence(self.equation, share, threshold),
            tables=[*equation_tables(self.equation, share, threshold), *found.tables],
        )

    def save_kept(self, folder: Path) -> None:
        super().save_kept(folder)
        save_equation(self.equation, folder)

    def load_kept(self, folder: Path) -> None:
        super().load_kept(folder)
        load_equation(self.equation, folder)

    def _parameters_by_turn(self) -> tuple[list[nn.Parameter], list[nn.Parameter], list[nn.Parameter]]:
        """Weights of the network, points of its solution blocks, and weights of those blocks."""
        blocks = solution_blocks(self.model)
        points = [block.points for block in blocks]
        weights = [p for p in trainable(self.model) if all(p is not point for point in points)]
        return weights, points, [p for block in blocks for p in trainable(block.field)]

    def _entered(self, images: Tensor) -> list[Entered]:
        """What enters the solution blocks, of as many images as the losses are taken on."""
        images = images[: math.ceil(self.setup.settings.share * len(images))] if self.training else images
        return [one.some(len(images)) for one in observed(self.model, images)[1]]

    def _solution_loss(self, entered: list[Entered]) -> tuple[Tensor, Sums]:
        """The weighted losses of initial condition and equation, and what each is."""
        settings = self.setup.settings
        count = math.ceil(settings.share * len(entered[0].features))
        some = [one.some(count) for one in entered]
        initial, governing = initial_loss(some), torch.zeros_like(some[0].features[0, 0, 0, 0])
        if settings.governing:
            governing = governing_loss(self.equation, derivatives(self.equation, some), fixed=True)
        check_losses(initial, governing, self.equation)
        size = settings.sparsity * self.equation.l1()
        parts = {"initial": initial.detach(), "governing": governing.detach(), "sparsity": size.detach()}
        return settings.initial * initial + settings.governing * governing, parts

    def _equation_objective(self, images: Tensor) -> tuple[Tensor, Sums]:
        """Loss of the equation in its coefficients alone: the features are what they are."""
        with torch.no_grad():
            along = derivatives(self.equation, self._entered(images))
        loss = governing_loss(self.equation, along, fixed=False)
        return loss + self.setup.settings.sparsity * self.equation.l1(), {}
