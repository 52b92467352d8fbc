"""What is minimised when a network solves a problem: residuals, conditions and samples at points, or an energy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent.data import CollocationPoints, Material
from evolvent.equations import polynomial_terms
from evolvent.equations.problems import Condition, Problem
from evolvent.tasks.gauss_newton import ResidualBlock
from evolvent.tasks.pde.ansatz import coefficient_of
from evolvent.tasks.pde.asked import Asked
from evolvent.tasks.pde.discovery import Discovery
from evolvent.tasks.pde.edges import Edges, draw_edges
from evolvent.tasks.pde.fields import measured_columns
from evolvent.tasks.pde.methods import energy
from evolvent.tasks.pde.settings import LossWeights, PdeSettings, phase_name
from evolvent.tasks.pde.weighting import Weighting
from evolvent.tasks.task import Setup, Sums, Task, trainable


class PdeObjective(Task):
    """The part of the task :class:`~evolvent.tasks.pde.task.Pde` that knows the solution and what is asked of it.

    Attributes:
        source, problem: where the equation is asked to hold, and which.
        points: those of the training, as they are now.
        factors: of the coefficients that are looked for.
        weighting: factors of the parts that follow the training; None if there are none.
        discovery: the equation that is looked for; None if it is known.
    """

    points: Tensor

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        source = material.train
        assert isinstance(source, CollocationPoints)
        settings: PdeSettings = setup.settings
        self.source, self.problem = source, _with_guesses(source.problem, settings.unknown)
        self.factors = nn.ParameterDict({name: torch.ones((), dtype=torch.float64) for name in settings.unknown})
        self.register_buffer("points", source.draw(source.count, setup.seed, 0))
        self._drawn: tuple[int, Edges] | None = None
        self.weighting = None
        if settings.weighting is not None:
            self.weighting = Weighting(settings.weighting, source.count, len(self.problem.unknowns))
        self.discovery = None
        if settings.library is not None:
            terms = polynomial_terms(self.problem.space, settings.library.powers, settings.library.orders)
            self.discovery = Discovery(terms, self.problem.time)

    def edges(self, draw: int = 0) -> Edges:
        """Points where initial value, boundary values and conditions are asked for; those of a draw are kept."""
        if self._drawn is None or self._drawn[0] != draw:
            settings, count = self.setup.settings, self.setup.data.face_points
            self._drawn = draw, draw_edges(self.source, settings, count, self.setup.seed, draw)
        return self._drawn[1]

    @property
    def coefficients(self) -> dict[str, Tensor]:
        """The coefficients that are looked for, as they are now."""
        guesses = self.setup.settings.unknown
        return {name: coefficient_of(guesses[name], factor) for name, factor in self.factors.items()}

    def solution(self, points: Tensor) -> Tensor:
        """u at points, with what is built in."""
        return self.solution_of(self.model, points)

    def solution_of(self, network: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
        """The same for another network, such as this one with other weights."""
        return self.setup.settings.ansatz.solution(self.problem, network, points)

    def objective(self, batch: Any, turn: str) -> tuple[Tensor, Sums]:
        weights, coefficients = self._of_turn(turn)
        parts = self._parts(batch, weights, coefficients)
        if not parts:
            raise ConfigError("nothing is left of the objective: give task.weights, or data.samples for samples.")
        factor = (lambda name: 1.0) if self.weighting is None else self.weighting.factor
        total = torch.stack([getattr(weights, name) * factor(name) * value for name, value in parts.items()]).sum()
        sums = {f"loss_{name}": value.detach() for name, value in parts.items()} | {"steps": torch.ones_like(total)}
        if "equation" in parts and self.setup.settings.method != "ritz" and self.weighting is None:
            count = total.new_tensor(len(batch["row"]))
            sums |= {"squares": parts["equation"].detach() * count, "count": count}
        return total, sums

    def _of_turn(self, turn: str) -> tuple[LossWeights, Mapping[str, float]]:
        """Weights and coefficients of a phase."""
        phase = next((p for n, p in enumerate(self.setup.settings.phases) if phase_name(n) == turn), None)
        weights = (phase and phase.weights) or self.setup.settings.weights
        return weights, phase.coefficients if phase else {}

    def _parts(self, batch: Any, weights: LossWeights, coefficients: Mapping[str, float]) -> dict[str, Tensor]:
        """Means of squares, or the energy, by the names of their weights."""
        found: dict[str, Tensor] = {}
        if weights.equation and self._unlike_residuals:
            found["equation"] = self._inside(self.placed(self._places(batch)), coefficients)
        for one in self._asked(batch, weights, coefficients):
            value = one.mean_square(self.model)
            found[one.part] = found[one.part] + value if one.part in found else value
        return found

    @property
    def _unlike_residuals(self) -> str:
        """Why the objective is not a sum of squares of residuals at points; empty if it is."""
        if self.setup.settings.method == "ritz":
            return "the method ritz minimises an energy"
        return "" if self.discovery is None else "an equation is looked for, whose coefficients depend on all residuals"

    def _inside(self, points: Tensor, coefficients: Mapping[str, float]) -> Tensor:
        if self.setup.settings.method == "ritz":
            return energy(self.problem, self.solution, points, coefficients)
        return self.residual_at(points, coefficients).square().mean()

    def _asked(self, batch: Any, weights: LossWeights, coefficients: Mapping[str, float]) -> Iterator[Asked]:
        """What is asked of the solution, each at points of its own."""
        problem, edges = self.problem, self.placed(self.edges(int(batch["draw"])))
        if weights.equation and not self._unlike_residuals:
            yield self._equation(self.placed(self._places(batch)), batch["row"], coefficients)
        if weights.initial and edges.start is not None and not self.discovery:
            yield self._value("initial", edges.start, problem.initial_values(edges.start))
        if weights.boundary and edges.boundary is not None and not self.discovery:
            yield self._value("boundary", edges.boundary, problem.boundary_values(edges.boundary))
        if weights.conditions and edges.faces:
            for condition, at in zip(problem.conditions, edges.faces, strict=True):
                yield Asked("conditions", at, lambda f, x, one=condition: self._violation(one, f, x))
        if weights.samples and self.source.samples is not None:
            at, values = self.placed(tuple(self.source.samples))
            yield self._value("samples", at, values, measured_columns(values))

    def _value(self, part: str, at: Tensor, values: Tensor, columns: Sequence[int] | None = None) -> Asked:
        """Given values of u, or of some of its components."""
        scale = self.problem.scale
        if columns is None or len(columns) == values.shape[1]:
            return Asked(part, at, lambda f, x: self.solution_of(f, x) / scale, values / scale)
        kept = list(columns)
        return Asked(part, at, lambda f, x: self.solution_of(f, x)[:, kept] / scale, values[:, kept] / scale)

    def _equation(self, points: Tensor, rows: Tensor, coefficients: Mapping[str, Any]) -> Asked:
        problem, weighting = self.problem, self.weighting
        values = {**self.coefficients, **coefficients}
        drifts = weighting is not None and weighting.drifts

        def residual(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
            u = problem.derivatives(lambda p: self.solution_of(f, p), x)
            found = problem.residual(u, **values)
            return found + weighting.pull(u.value / problem.scale) if drifts and weighting is not None else found

        if weighting is None:
            return Asked("equation", points, residual)
        target = weighting.pull(weighting.previous[rows].to(points)) if drifts else None
        return Asked("equation", points, residual, target, weighting.shares(rows, self._times(points)).to(points))

    def residuals(self, batch: Any, turn: str) -> list[ResidualBlock]:
        """Residuals whose squares add up to :meth:`objective`, with their derivatives."""
        if reason := self._unlike_residuals:
            raise ConfigError(f"gauss-newton is for sums of squares, and {reason}. Take adam, lbfgs or ssbroyden.")
        weights, coefficients = self._of_turn(turn)
        return [self._block(one, weights) for one in self._asked(batch, weights, coefficients)]

    def _block(self, one: Asked, weights: LossWeights) -> ResidualBlock:
        with torch.no_grad():
            off = one.off(self.model)
        part = 1.0 if self.weighting is None else self.weighting.factor(one.part)
        factors = one.factors(off) * (getattr(weights, one.part) * part) ** 0.5

        def jacobian() -> Tensor:
            rows = torch.cat([one.jacobian(self.model, off.shape[1]), self._factor_slopes(one, off.shape[1])], dim=2)
            return (factors[..., None] * rows).flatten(0, 1)

        return ResidualBlock((factors * off).flatten(), jacobian)

    def _factor_slopes(self, one: Asked, components: int) -> Tensor:
        """Derivatives in the factors of coefficients that are looked for, (N, components, factors)."""
        count, guesses = len(one.points), self.setup.settings.unknown
        if not self.factors or one.part != "equation":
            return one.points.new_zeros(count, components, len(self.factors))
        with torch.enable_grad():  # a column for each factor keeps the points apart
            columns = {name: f.detach().to(one.points).expand(count, 1).clone() for name, f in self.factors.items()}
            given = {name: coefficient_of(guesses[name], f.requires_grad_()) for name, f in columns.items()}
            off = self.problem.residual(self.problem.derivatives(self.solution, one.points), **given)
            rows = [torch.autograd.grad(k.sum(), list(columns.values()), retain_graph=True) for k in off.unbind(1)]
        return torch.stack([torch.cat(row, dim=1) for row in rows], dim=1)

    def _times(self, points: Tensor) -> Tensor:
        """From 0 at the start to 1 at the end; 0 without time."""
        if self.problem.time not in self.problem.domain:
            return torch.zeros_like(points[:, 0])
        at, start = self.problem.coordinates.index(self.problem.time), self.problem.domain[self.problem.time][0]
        return (points[:, at] - start) / self.problem.duration

    def renew_weights(self, weighting: Weighting) -> None:
        """After an epoch, by the residuals and gradients that are left."""
        points = self.placed(self.points)
        u = self.problem.derivatives(self.solution, points)
        squares = self.problem.residual(u, **self.coefficients).square().mean(1)
        weighting.renew(squares, self._times(points), u.value / self.problem.scale)
        if weighting.settings.balance:
            batch = {"row": torch.arange(len(points), device=points.device), "x": points, "draw": torch.tensor(0)}
            with torch.enable_grad():
                parts = self._parts(batch, self.setup.settings.weights, {})
                weights = trainable(self.model)
                found = {
                    name: [g for g in torch.autograd.grad(value, weights, allow_unused=True) if g is not None]
                    for name, value in parts.items()
                }
            weighting.rebalance(found)

    def _places(self, batch: Any) -> Tensor:
        if self.discovery is not None:
            return self.points  # coefficients are fitted to all of them, in every process
        return batch["x"] if self.setup.data.fresh else self.points[batch["row"]]

    def _violation(self, condition: Condition, f: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
        return self.problem.violation(condition, lambda x: self.solution_of(f, x), at) / self.problem.scale

    def residual_at(self, points: Tensor, coefficients: Mapping[str, float] | None = None) -> Tensor:
        """At points, (N, equations); an unknown equation is fitted if coefficients are given, be it none of them."""
        if self.discovery is None:
            values: dict[str, Any] = {**self.coefficients, **(coefficients or {})}
            return self.problem.residual(self.problem.derivatives(self.solution, points), **values)
        u = self.problem.derivatives(self.solution, points, self.discovery.needed)
        residual = self.discovery.residual_of(u) if coefficients is None else self.discovery.residual(u)
        return residual * (self.problem.duration / self.problem.scale)


def _with_guesses(problem: Problem, guesses: Mapping[str, float]) -> Problem:
    """The problem as far as it is known: the stated coefficients that are looked for say nothing."""
    known = {name: value for name, value in guesses.items() if name in problem.coefficients}
    return replace(problem, coefficients={**problem.coefficients, **known}) if known else problem
