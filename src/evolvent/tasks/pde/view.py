"""What a report shows of a solution: the field with its reference, lines at chosen times, the equation found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from evolvent.data import Batches
from evolvent.equations.problems import Problem
from evolvent.tasks.findings import Curve, Field, Findings, Table
from evolvent.tasks.pde.discovery import Discovery
from evolvent.tasks.pde.uncertainty import Uncertainty
from evolvent.tasks.task import evaluating

if TYPE_CHECKING:
    from evolvent.tasks.pde.task import Pde

_LINE = 256  # points of a line


def add_solution(task: Pde, findings: Findings, test: Batches) -> dict[str, float]:
    """Add fields and lines to findings; returns the errors at the times that the recipe names."""
    problem = task.problem
    if len(problem.domain) == 2 and task.setup.data.grid:
        findings.fields.extend(_fields(task, test))
    errors = {}
    for time in task.setup.settings.times:
        points = _at_time(problem, time)
        u = _values(task, points)
        if problem.reference is None:
            continue
        reference = problem.solution(points)
        errors[f"error_at_{time:g}"] = ((u - reference).norm() / reference.norm()).item()
        if len(problem.space) == 1:
            findings.curves.extend(_lines(problem, points, u, reference, time))
    return errors


def _values(task: Pde, points: Tensor) -> Tensor:
    with evaluating(task):
        return task.solution(task.placed(points)).double().cpu()


def _fields(task: Pde, test: Batches) -> list[Field]:
    problem, counts = task.problem, task.setup.data.grid
    points, values = test.source.take(torch.arange(len(test.source)), test.seed, 0)
    u = _values(task, points)
    if problem.eigenvalue is not None:  # any multiple is a solution
        u = u * ((u * values).sum() / u.square().sum().clamp_min(1e-300))
    if problem.region is not None:
        rows = problem.contains(problem.grid(*counts))
        u, values = (_scattered(one, rows) for one in (u, values))
    (left, right), (bottom, top) = problem.domain.values()
    x_label, y_label = problem.coordinates
    return [
        Field(
            name,
            u[:, k].view(*counts).T.numpy(),
            (left, right, bottom, top),
            x_label,
            y_label,
            None if problem.reference is None else values[:, k].view(*counts).T.numpy(),
        )
        for k, name in enumerate(problem.unknowns)
    ]


def _scattered(values: Tensor, rows: Tensor) -> Tensor:
    """Values on a grid of which only some points have them."""
    whole = values.new_full((len(rows), values.shape[1]), float("nan"))
    whole[rows] = values
    return whole


def _at_time(problem: Problem, time: float) -> Tensor:
    points = problem.grid(*(1 if name == problem.time else _LINE for name in problem.domain))
    points[:, problem.coordinates.index(problem.time)] = time
    return points


def _lines(problem: Problem, points: Tensor, u: Tensor, reference: Tensor, time: float) -> list[Curve]:
    [space] = problem.space
    x = points[:, problem.coordinates.index(space)].tolist()
    moment, unknown = f"{problem.time} = {time:g}", problem.unknowns[0]
    lines = {"reference": (x, reference[:, 0].tolist()), "prediction": (x, u[:, 0].tolist())}
    off = {"difference": (x, (u - reference)[:, 0].tolist())}
    return [
        Curve(moment, space, unknown, lines),
        Curve(f"Prediction minus reference, {moment}", space, unknown, off),
    ]


def equation_table(discovery: Discovery, known: Uncertainty | None = None) -> Table:
    """Every term of the library with its coefficient, and how far that may be off; those left out have none."""
    alpha, rows = discovery.equation.alpha.tolist(), []
    errors = dict(zip(discovery.kept, known.errors.tolist() if known else [], strict=False))
    for k, term in enumerate(discovery.equation.terms):
        error = errors.get(k)
        kept = [alpha[k], error, None if error is None or known is None else known.within(0.95) * error]
        rows.append([term.text, *(kept if k in discovery.kept else [None] * 3)])
    return Table("The equation that was found", ["term", "coefficient", "standard error", "95 % within ±"], rows)
