"""A solution: a function of points with its figures, pictures, files, and whether to trust it."""

from __future__ import annotations

import math
import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

from evolvent import networks
from evolvent._core.checks import described
from evolvent._core.errors import ConfigError, ShapeError, UnknownNameError
from evolvent._core.files import draft_path
from evolvent.equations import Derivatives
from evolvent.equations.problems import PROBLEMS, Problem, create_problem, with_stored_reference
from evolvent.experiments.record import read_cell, read_result
from evolvent.report import write_report
from evolvent.report.solution_picture import solution_figure
from evolvent.solving.folders import main_cell, read_kept
from evolvent.solving.grids import grid_values, write_grid_csv, write_grid_npz
from evolvent.solving.verdicts import read_estimates, read_trust
from evolvent.tasks.pde.ansatz import Ansatz, coefficient_of

if TYPE_CHECKING:
    from evolvent.analysis.solutions import Estimates, Trust
    from evolvent.report.solution_picture import Figure as Drawing


class OutsideDomainWarning(UserWarning):
    """Values were asked for at points outside of the domain on which a problem was solved."""


class Solution:
    r"""The solution of a problem by a network, with a hard initial value if there is one.

    Called on points (N, coordinates) it gives values (N, unknowns), as a tensor for a tensor and else as an array; with
    gradients for a tensor that requires them.
    Points outside of the domain are answered with a warning, once.

    Args:
        problem: what is solved.
        network: that solves it.
        folder: of its run.
        ansatz: how the network is the solution.

    Attributes:
        figures: what was measured: the residual, and the error if there is a reference.
        trust: whether to trust it, and why; None if that was not looked into.
        estimates: coefficients that were looked for, with their standard errors; None if there were none.
    """

    def __init__(self, problem: Problem, network: nn.Module, folder: Path, ansatz: Ansatz) -> None:
        self.problem, self.network, self.folder, self._ansatz = problem, network, folder, ansatz
        self._warned = False
        result = read_result(main_cell(folder))
        self.figures: dict[str, float | None] = dict(result.figures) if result else {}
        self.trust: Trust | None = read_trust(folder)
        self.estimates: Estimates | None = read_estimates(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], problem: Problem | None = None) -> Solution:
        """Read a solution from its run folder, or from where :meth:`save` put it."""
        folder = Path(folder)
        cell = main_cell(folder)
        kept = read_kept(cell / "model")
        if problem is None:
            problem = _named_problem(kept["problem"], kept["options"], folder)
        _check_same(problem, kept, folder)
        guesses = getattr(getattr(read_cell(cell), "task", None), "unknown", {})
        if kept["factors"]:
            problem = replace(problem, coefficients={**problem.coefficients, **_found(guesses, kept["factors"])})
        return cls(problem, networks.load(cell / "model"), folder, kept["ansatz"])

    def __call__(self, points: Any) -> Any:
        """u at points, (N, coordinates) to (N, unknowns)."""
        if isinstance(points, Tensor):
            if type(points) is Tensor and not is_functorch_wrapped_tensor(points):  # which has numbers to look at
                self._warn_outside(points.detach().cpu().numpy())
                with torch.set_grad_enabled(torch.is_grad_enabled() and points.requires_grad):
                    return self._at(points)
            return self._at(points)
        try:
            found = np.asarray(points, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._misfit(described(points)) from None
        self._warn_outside(found)
        with torch.no_grad():
            return self._at(torch.from_numpy(found.copy())).numpy()

    def _at(self, points: Tensor) -> Tensor:
        if points.ndim != 2 or points.shape[1] != len(self.problem.domain):
            raise self._misfit(f"shape {tuple(points.shape)}")
        like = next(self.network.parameters())
        if (points.dtype, points.device) != (like.dtype, like.device):  # which would fill in gradients of an expansion
            points = points.to(like)
        return self._ansatz.solution(self.problem, self.network, points)

    def _misfit(self, given: str) -> ShapeError:
        names = self.problem.coordinates
        return ShapeError(
            f"the solution of {self.problem.name!r} takes numbers as points (N, {len(names)}) of {', '.join(names)}, "
            f"got {given}."
        )

    def _warn_outside(self, points: np.ndarray) -> None:
        """Warn once of points where the network was not trained."""
        if self._warned or points.ndim != 2 or points.shape[1] != len(self.problem.domain) or not len(points):
            return
        for (name, (low, high)), column in zip(self.problem.domain.items(), points.T, strict=True):
            slack = 1e-6 * (high - low)
            if column.min() < low - slack or column.max() > high + slack:
                self._warned = True
                warnings.warn(
                    f"some points lie outside of the domain of {self.problem.name!r}, which has {name} from {low:g} to "
                    f"{high:g}: values there are extrapolated and not to be trusted.",
                    OutsideDomainWarning,
                    stacklevel=3,
                )
                return

    def derivatives(self, points: Tensor, names: Sequence[str] | None = None) -> Derivatives:
        """u and its derivatives at points, those that the equation needs or those that are named."""
        return self.problem.derivatives(self._at, points.to(next(self.network.parameters())), names)

    @property
    def parts(self) -> tuple[Problem, nn.Module, Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]]:
        """The problem, the network, and u of any function in its place."""
        return self.problem, self.network, lambda f, points: self._ansatz.solution(self.problem, f, points)

    @property
    def coefficients(self) -> Mapping[str, float]:
        """Of the equation, those that were found among them."""
        return self.problem.coefficients

    def field(self, name: str, points: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """A coefficient that depends on coordinates, at points (N, coordinates), and its standard errors, (N,) each.

        Standard errors are None where those of its coefficients are not known.
        """
        if name not in self.problem.fields:
            raise UnknownNameError(
                "field", name, self.problem.fields, "State a coefficient as one by ev.equations.problems.with_field."
            )
        found = self.problem.fields[name]
        at = torch.as_tensor(np.asarray(points, dtype=np.float64))
        columns = dict(zip(self.problem.coordinates, at.split(1, dim=1), strict=True))
        values = found(columns, self.coefficients)[:, 0].numpy()
        if self.estimates is None or self.estimates.covariance is None:
            return values, None
        names = [one.name for one in self.estimates.found]
        rows = [names.index(one) for one in (name, *found.shape_names)]
        covariance = np.array(self.estimates.covariance)[np.ix_(rows, rows)]
        slopes = found.slopes(columns, self.coefficients).numpy()
        return values, np.sqrt(np.einsum("nj,jk,nk->n", slopes, covariance, slopes).clip(0))

    def on_grid(self, *counts: int) -> dict[str, np.ndarray]:
        """Values on a grid with so many points along each coordinate.

        Returns:
            A vector for each coordinate, an array of their lengths for each unknown, and for each unknown with a
            reference one called ``reference_`` and its name.
        """
        values = lambda points: self(points.numpy())  # noqa: E731
        return grid_values(self.problem, values, counts, reference=True)

    def write_npz(self, path: str | os.PathLike[str], *counts: int) -> Path:
        """Write what :meth:`on_grid` gives to an npz file."""
        return write_grid_npz(Path(path), self.problem, lambda points: self(points.numpy()), counts, reference=True)

    def write_csv(self, path: str | os.PathLike[str], *counts: int) -> Path:
        """Write what :meth:`on_grid` gives to a text file, a line for each point."""
        return write_grid_csv(Path(path), self.problem, lambda points: self(points.numpy()), counts, reference=True)

    def plot(self) -> Drawing:
        """A picture: the solution, its reference and the difference; slices if there are more than two coordinates."""
        reference: Callable[[Tensor], Tensor] | None = None
        if self.problem.reference is not None:
            reference = self.problem.solution
        return solution_figure(self.problem, self, reference)

    def report(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the report of the run to one HTML file, ``report.html`` in its folder unless told otherwise.

        The folder of a solution without ``out`` is temporary, and deleted with the solution.
        """
        return write_report([self.folder], self.folder / "report.html" if path is None else Path(path))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the run, without what only serves to train on, into a new folder, for :func:`evolvent.load`."""
        target = Path(folder)
        if target.exists():
            raise ConfigError(f"{target} exists already. Choose another folder, or delete it first.")
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = draft_path(target.parent)
        try:
            shutil.copytree(self.folder, draft, ignore=shutil.ignore_patterns("checkpoints", ".evolvent*", "*.lock"))
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return target

    def __repr__(self) -> str:
        error = self.figures.get("error")
        known = "" if error is None or not math.isfinite(error) else f", relative error {error:.2g}"
        verdict = "" if self.trust is None else f": {self.trust.verdict}"
        return f"<Solution of {self.problem.title or self.problem.name}{known}{verdict}>"


def _found(guesses: Mapping[str, float], factors: Mapping[str, float]) -> dict[str, float]:
    return {name: coefficient_of(guesses[name], factor) for name, factor in factors.items()}


def _named_problem(name: str, options: Mapping[str, Any], folder: Path) -> Problem:
    if name not in PROBLEMS:
        raise UnknownNameError(
            "problem", name, PROBLEMS, f"Give it to load what {folder} holds: ev.load(folder, problem=...)."
        )
    return with_stored_reference(create_problem(name, **options), options)


def _check_same(problem: Problem, kept: Mapping[str, Any], folder: Path) -> None:
    """Refuse a problem with other coordinates or unknowns than the one that was solved."""
    if not isinstance(problem, Problem):
        raise ConfigError(f"problem is a Problem such as create_problem('heat'), got {described(problem)}.")
    given = {name: list(ends) for name, ends in problem.domain.items()}, list(problem.unknowns)
    solved = kept["domain"] or given[0], kept["unknowns"] or given[1]
    if (list(given[0].items()), given[1]) != (list(solved[0].items()), solved[1]):
        told = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in solved[0].items())
        raise ConfigError(
            f"{folder} holds a solution {', '.join(solved[1])} of {told}, and {problem.name!r} has other coordinates "
            "or unknowns. Give the problem that was solved."
        )
