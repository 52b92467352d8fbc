"""The task of solving a problem, or of finding its equation from samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, DataError
from evolvent._core.randomness import Stream, derive_seed, key
from evolvent._core.seals import read_sealed, why_unfit, write_sealed
from evolvent.data import Batches, CollocationPoints, Material, TensorSource
from evolvent.equations.problems import Problem, create_problem, with_stored_reference
from evolvent.tasks.findings import Figure, Findings
from evolvent.tasks.pde.checks import check_conditions, check_finite, check_network, check_unknown
from evolvent.tasks.pde.discovery import Discovery
from evolvent.tasks.pde.faces import check_sides
from evolvent.tasks.pde.fields import error_fields
from evolvent.tasks.pde.methods import check_method, rayleigh_quotient
from evolvent.tasks.pde.objective import PdeObjective
from evolvent.tasks.pde.samples import read_samples
from evolvent.tasks.pde.settings import PdeData, PdeSettings, phase_name
from evolvent.tasks.pde.uncertainty import fitted_uncertainty
from evolvent.tasks.pde.view import add_solution, equation_table
from evolvent.tasks.pde.weighting import check_weighting
from evolvent.tasks.quasi_newton import warn_of_precision
from evolvent.tasks.task import Setup, Sums, register_task, trainable
from evolvent.tasks.turns import Plan, Turn

_MAIN = "network"  # turn of the recipe's own optimiser
_TEST_SEED = 123_456  # of points where errors are measured
_QUADRATURE = 2**16  # points of integrals
_OF_EIGENVALUE = (
    Figure("eigenvalue", "eigenvalue", better=None),
    Figure("eigenvalue_error", "relative error of the eigenvalue"),
)
_PARTS = {
    "equation": "the equation",
    "initial": "the initial value",
    "boundary": "the boundary",
    "conditions": "conditions",
    "samples": "samples",
}


SOLUTION = "solution.json"
"""File beside a saved network that says how it is a solution."""


@register_task("pde")
class Pde(PdeObjective):
    r"""Trains a function of coordinates by the equation that it should solve (Raissi et al. 2019),

    .. math:: w_e \frac 1N \sum_i R[u](x_i)^2 + w_0 \frac 1M \sum_j (u(x_j, 0) - u_0(x_j))^2
       + \dots + w_s \frac 1K \sum_k (u(x_k) - u_k)^2.

    Residuals are in units of the solution over the time of the problem, values in units of the solution. The method
    ``galerkin`` (Sirignano and Spiliopoulos 2018) takes new random points in each step, ``ritz`` (E and Yu 2018)
    minimises the problem's energy instead of the residual; see :func:`~evolvent.tasks.pde.methods.energy`. With
    ``library`` the equation is not used but found; see :class:`~evolvent.tasks.pde.Discovery`.
    """

    Settings, Data = PdeSettings, PdeData
    figures = (
        Figure("error", "relative L2 error"),
        Figure("residual", "root mean square of the residual"),
        *(Figure(f"loss_{name}", f"loss of {title}") for name, title in _PARTS.items()),
    )

    epochs_seen: Tensor

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        settings: PdeSettings = setup.settings
        check_method(self.problem, settings, setup.data)
        check_finite(self.problem)
        check_conditions(self.problem)
        if settings.method != "ritz" and settings.library is None and self.source.samples is None:
            check_sides(self.problem)  # an energy has conditions of its own, and samples may say what is not given
        check_network(self.problem, model)
        check_unknown(self.problem, settings, self.source.samples is not None)
        check_weighting(self.problem, settings, setup.data)
        self.register_buffer("epochs_seen", torch.zeros((), dtype=torch.int64))
        self.figures = self._own_figures(settings)

    def _own_figures(self, settings: PdeSettings) -> tuple[Figure, ...]:
        """Those of this problem and these settings."""
        known = [figure for figure in type(self).figures if self.problem.reference or figure.name != "error"]
        terms = [] if settings.library is None else [Figure("terms", "terms of the equation", "count")]
        eigenvalue = [] if self.problem.eigenvalue is None else _OF_EIGENVALUE
        found = [Figure(name, name, better=None) for name in settings.unknown]
        at_times = [_figure_at(t) for t in settings.times if self.problem.reference]
        return (*known, *terms, *eigenvalue, *found, *at_times)

    @classmethod
    def read(cls, data: PdeData, folder: Path | None) -> tuple[Problem, Tensor, Tensor]:
        """The problem, and its reference on a grid."""
        del folder
        problem = with_stored_reference(create_problem(data.name, **data.options), data.options)
        if data.grid and len(data.grid) != len(problem.domain):
            raise ConfigError(
                f"data.grid must have a number for each of {', '.join(problem.domain)}, or be empty for random points, "
                f"got {data.grid}."
            )
        if data.grid:
            points = problem.grid(*data.grid)
            points = points[problem.contains(points)] if problem.region else points
        else:
            points = CollocationPoints(problem, data.test_points, "uniform").draw(data.test_points, _TEST_SEED, 0)
        unknown = torch.full((len(points), len(problem.unknowns)), torch.nan, dtype=torch.float64)
        return problem, points, unknown if problem.reference is None else problem.solution(points)

    @classmethod
    def material(cls, found: tuple[Problem, Tensor, Tensor], data: PdeData, seed: int) -> Material:
        problem, points, values = found
        train = CollocationPoints(problem, data.points, data.sampler, data.within, data.fresh)
        if data.file:
            train.samples = read_samples(Path(data.file), problem)
        elif data.samples:
            train.samples = train.sampled(data.samples, data.noise, seed)
        test = TensorSource(points, values)
        options = problem.network_options()
        return Material(problem.name, train, test, test, example=points[:64].float(), options=options, rows="points")

    @classmethod
    def check_model(cls, name: str, options: Sequence[str]) -> None:
        if "in_features" not in options:
            raise ConfigError(f"{name!r} takes no coordinates: it has no option in_features. Use perceptron.")

    def turns(self, plan: Plan) -> list[Turn]:
        found, since = [], 0
        for number, phase in enumerate(self.setup.settings.phases):
            until = since + phase.steps
            found.append(self._turn(phase.optimizer, phase.schedule, phase_name(number), since, until))
            since = until
        if plan.steps is None or plan.steps > since:
            found.append(self._turn(self.setup.optimizer, self.setup.schedule, _MAIN, since, None))
        return found

    def _turn(self, optimizer: Any, schedule: Any, name: str, since: int, until: int | None) -> Turn:
        parameters = [*trainable(self.model), *self.factors.values()]
        return Turn(parameters, optimizer, schedule, name, since=since, until=until)

    def measure(self, batch: Any) -> Sums:
        points, values = batch
        with torch.no_grad():
            residual = self.residual_at(points)
        found = _residual_sums(residual)
        if self.problem.reference is None:
            return found
        with torch.no_grad():
            off = self.solution(points) - values
        if self.problem.eigenvalue is not None:
            return {**_products(off + values, values), **found}
        return {"off": off.square().sum(), "size": values.square().sum(), **found}

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        found = {}
        if "product" in sums:  # of the angle between u and the reference
            cosine = sums["product"] ** 2 / (sums["own"] * sums["size"]).clamp_min(1e-300)
            found["error"] = (1 - cosine).clamp_min(0).sqrt().item()
        if "off" in sums:
            found["error"] = (sums["off"] / sums["size"].clamp_min(1e-300)).sqrt().item()
        if "count" in sums:
            found["residual"] = (sums["squares"] / sums["count"]).sqrt().item()
        losses = [name for name in sums if name.startswith("loss_")]
        return found | {name: (sums[name] / sums["steps"]).item() for name in losses}

    @torch.no_grad()
    def epoch_ends(self, watched: Mapping[str, Tensor]) -> bool:
        self.epochs_seen += 1
        epoch, settings = int(self.epochs_seen), self.setup.settings
        if epoch in settings.resample_at:
            self._resample(epoch)
        if self.weighting is not None:
            self.renew_weights(self.weighting)
        if self.discovery is not None and epoch in settings.library.eliminate_at:
            self._leave_terms_out(self.discovery)
        return False

    def _leave_terms_out(self, discovery: Discovery) -> None:
        library = self.setup.settings.library
        if library.significance is None:
            u = self.problem.derivatives(self.solution, self.placed(self.points), discovery.needed)
            discovery.eliminate(u, library.growth)
        else:
            discovery.keep_significant(fitted_uncertainty(self, discovery), library.significance)

    def optimizer_stops(self, turn: str, reason: str) -> bool:
        """The end, unless another phase or other points follow."""
        settings = self.setup.settings
        optimizers = {phase_name(n): phase.optimizer for n, phase in enumerate(settings.phases)}
        if optimizers.get(turn, self.setup.optimizer).name == "lbfgs" and "float32" in reason:
            warn_of_precision("L-BFGS", reason)
        later = [*settings.resample_at, *(settings.library.eliminate_at if settings.library else [])]
        return turn == _MAIN and all(epoch <= int(self.epochs_seen) for epoch in later)

    def _resample(self, epoch: int) -> None:
        r"""Points with probability proportional to :math:`1 + r^2 / \overline{r^2}`, of candidates drawn anew."""
        count, seed = self.source.count, self.setup.seed
        candidates = self.source.draw(self.setup.settings.candidates * count, seed, epoch)
        squares = self.residual_at(self.placed(candidates)).square().mean(1).double().cpu()
        chances = squares / squares.mean().clamp_min(1e-300) + 1
        place = derive_seed(*key(Stream.COLLOCATION, seed, 2, epoch))
        rows = torch.multinomial(chances, count, generator=torch.Generator().manual_seed(place))
        self.points.copy_(candidates[rows])

    def conclude(self, test: Batches) -> Findings:
        """The errors, the solution beside its reference, and the equation if it was asked for."""
        figures, equation = self.test_figures(test), self.discovery
        figures |= {name: value.item() for name, value in self.coefficients.items()}
        findings = Findings(figures=figures, answer="" if equation is None else equation.text())
        figures |= add_solution(self, findings, test)
        findings.fields.extend(error_fields(self, _MAIN))
        if self.problem.eigenvalue is not None:
            points = self.placed(self.source.draw(_QUADRATURE, _TEST_SEED, 0))
            figures["eigenvalue"] = rayleigh_quotient(self.problem, self.solution, points)
            figures["eigenvalue_error"] = abs(figures["eigenvalue"] / self.problem.eigenvalue - 1)
        if equation is not None:
            figures["terms"] = len(equation.kept)
            noisy = self.source.samples is not None and equation.kept
            known = fitted_uncertainty(self, equation) if noisy else None
            findings.tables.append(equation_table(equation, known))
        return findings

    def save_kept(self, folder: Path) -> None:
        super().save_kept(folder)
        if self.discovery is not None:
            self.discovery.write(folder / "equation.json")
        write_sealed(folder / SOLUTION, self._kept_beside())

    def _kept_beside(self) -> dict[str, Any]:
        """What makes a solution of the network: the problem, how its initial value enters, and what was found."""
        settings: PdeSettings = self.setup.settings
        return {
            "problem": self.setup.data.name,
            "options": self.setup.data.options,
            "domain": {name: list(ends) for name, ends in self.problem.domain.items()},
            "unknowns": list(self.problem.unknowns),
            **asdict(settings.ansatz.fitted_to(self.problem)),
            "factors": {name: factor.item() for name, factor in self.factors.items()},
        }

    def load_kept(self, folder: Path) -> None:
        super().load_kept(folder)
        self._read_factors(folder / SOLUTION)
        if self.discovery is not None:
            self.discovery.read(folder / "equation.json")

    def _read_factors(self, path: Path) -> None:
        try:
            found = read_sealed(path)["factors"] if self.factors else {}
            values = {name: float(found[name]) for name in self.factors}
        except (OSError, ValueError, KeyError, TypeError) as error:
            lack = "does not have the coefficients that were found"
            raise DataError(why_unfit(path, error, lack, "train again")) from None
        with torch.no_grad():
            for name, factor in self.factors.items():
                factor.fill_(values[name])


def _products(u: Tensor, values: Tensor) -> Sums:
    return {"own": u.square().sum(), "product": (u * values).sum(), "size": values.square().sum()}


def _residual_sums(residual: Tensor) -> Sums:
    return {"squares": residual.square().mean(1).sum(), "count": residual.new_tensor(len(residual))}


def _figure_at(time: float) -> Figure:
    return Figure(f"error_at_{time:g}", f"relative L2 error at t = {time:g}")
