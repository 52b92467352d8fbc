"""Verdicts on solutions as files of their run folders, and as parts of their reports."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from evolvent.analysis.solutions import Check, Estimate, Estimates, Trust
from evolvent.equations.problems import Problem
from evolvent.experiments.record import read_findings, read_json, write_findings, write_run_json
from evolvent.tasks.findings import Field, Table
from evolvent.tasks.pde.uncertainty import student_factor

TRUST, ESTIMATES = "trust.json", "coefficients.json"
_CHECKS, _COEFFICIENTS, _ERROR = "Whether to trust it", "Coefficients that were found", "Estimated error of"


def write_trust(folder: Path, trust: Trust) -> None:
    """Write a verdict without its field of errors."""
    checks = [asdict(one) for one in trust.checks]
    told = {name: getattr(trust, name) for name in ("trusted", "verdict", "not_checked", "tolerance")}
    write_run_json(folder / TRUST, {**told, "checks": checks})


def read_trust(folder: Path) -> Trust | None:
    """The verdict of a run folder; None if there is none."""
    values = read_json(folder / TRUST)
    if values is None:
        return None
    checks = [Check(**one | {"value": _number(one["value"])}) for one in values["checks"]]
    tolerance = values.get("tolerance", math.nan)  # which equals none: a file without one is judged again
    return Trust(values["trusted"], values["verdict"], checks, values["not_checked"], tolerance=tolerance)


def write_estimates(folder: Path, estimates: Estimates) -> None:
    write_run_json(folder / ESTIMATES, {**asdict(estimates), "known": _known(estimates)})


def read_estimates(folder: Path) -> Estimates | None:
    """The coefficients that a run found; None if it looked for none."""
    values = read_json(folder / ESTIMATES)
    if values is None:
        return None
    known = values.pop("known")
    found = [
        Estimate(one["name"], one["value"], _number(one["error"]) if known else None) for one in values.pop("found")
    ]
    return Estimates(found, **values)


def _known(estimates: Estimates) -> bool:
    return all(one.error is not None for one in estimates.found)


def _number(value: float | None) -> float:
    """JSON has no infinity: it is written as null."""
    return float("inf") if value is None else value


def add_to_findings(folder: Path, problem: Problem, trust: Trust, estimates: Estimates | None) -> None:
    """Let the report of a finished training say whether to trust it, in the place of an earlier verdict."""
    findings = read_findings(folder)
    if findings is None:
        return
    kept = [one for one in findings.tables if one.title not in (_CHECKS, _COEFFICIENTS)]
    tables = [*kept, trust_table(trust), *([coefficients_table(estimates)] if estimates else [])]
    shown = [one for one in findings.fields if not one.title.startswith(_ERROR)]
    fields = [*shown, *_error_fields(problem, trust.error)]
    write_findings(folder, replace(findings, answer=trust.verdict, tables=tables, fields=fields))


def trust_table(trust: Trust) -> Table:
    """Each check with what was measured and its limit."""
    rows = [
        [one.name, one.value, one.limit, "reported" if one.limit is None else "passed" if one.passed else "failed"]
        for one in trust.checks
    ]
    rows += [[name, None, None, f"not checked: {reason}"] for name, reason in trust.not_checked.items()]
    return Table(_CHECKS, ["check", "measured", "limit", "result"], rows)


def coefficients_table(estimates: Estimates) -> Table:
    """Each coefficient with its standard error and, by Student's distribution, its interval."""
    factor = student_factor(0.95, estimates.freedom) if estimates.freedom > 0 else math.nan
    rows = [[one.name, one.value, one.error, one.error and factor * one.error] for one in estimates.found]
    return Table(_COEFFICIENTS, ["coefficient", "value", "standard error", "95 % within ±"], rows)


def _error_fields(problem: Problem, error: np.ndarray | None) -> list[Field]:
    if error is None or error.ndim < 3 or not np.isfinite(error).all():  # curves are not drawn as fields
        return []
    (left, right), (bottom, top) = problem.domain.values()
    x_label, y_label = problem.coordinates
    first = problem.coordinates[0] == problem.space[0]
    shown = error if first else error.swapaxes(0, 1)
    return [
        Field(f"{_ERROR} {name}", shown[..., k].T, (left, right, bottom, top), x_label, y_label)
        for k, name in enumerate(problem.unknowns)
    ]
