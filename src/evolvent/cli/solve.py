"""``evolvent solve``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evolvent.equations.problems import Problem
    from evolvent.solving import Solution

_BEGAN = time.perf_counter()  # the budget counts from here, so that it includes the time to load PyTorch


def solve(
    problem: Annotated[str | None, typer.Argument(help="Name of a problem; without one they are listed.")] = None,
    budget: Annotated[str, typer.Option(help="Wall-clock time for everything, e.g. 90s, 5m or 1h.")] = "5m",
    method: Annotated[str, typer.Option(help="How to solve it.")] = "pinn",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the plan, e.g. model.options.width=40."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Option of the problem, e.g. viscosity=0.01.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and points.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/solve-<problem>/<id>.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was interrupted.")] = False,
    no_second: Annotated[bool, typer.Option("--no-second", help="Do not solve twice to compare.")] = False,
    tolerance: Annotated[float, typer.Option(min=0, help="Relative error up to which to trust it.")] = 0.01,
    reference: Annotated[
        bool, typer.Option("--reference", help="Only compute the reference and store it; do not solve.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Also write values on a grid to this CSV file.")] = None,
    npz: Annotated[Path | None, typer.Option(help="Also write values on a grid to this npz file.")] = None,
) -> None:
    """Solve an equation with a network within a time budget, and say whether to trust the answer."""
    if problem is None:
        _list()
        return
    options = _options(option or [])
    if reference:
        _compute_reference(problem, options, csv, npz)
        return
    from evolvent.cli.display import show_line, working
    from evolvent.cli.solving_progress import SolvingObserver
    from evolvent.experiments.freed_memory import keep_freed_memory
    from evolvent.solving.plan import parse_budget
    from evolvent.solving.solve import solve as solve_problem

    keep_freed_memory()
    seconds = parse_budget(budget)
    folder = out or _folder(problem, options, method, budget, settings or [])
    found = solve_problem(
        problem,
        seconds,
        method,
        seed,
        options=options,
        second=not no_second,
        tolerance=tolerance,
        settings=settings or [],
        out=folder,
        resume=resume,
        observer=SolvingObserver(problem),
        began=_BEGAN,
    )
    with working("drawing the report"):
        report = found.report(folder / "report.html")
        written = _write_grids(found, csv, npz)
    _show(found)
    for path in written:
        show_line(f"values: {path}")
    show_line(f"report: {report}")


def _list() -> None:
    from evolvent.cli.display import show_line, show_table
    from evolvent.equations.problems import create_problem, list_problems
    from evolvent.solving.plan import METHODS

    rows = []
    for name in list_problems():
        problem = create_problem(name)
        ends = ", ".join(f"{c} in [{low:g}, {high:g}]" for c, (low, high) in problem.domain.items())
        coefficients = ", ".join(f"{c}={value:.4g}" for c, value in problem.coefficients.items())
        rows.append([name, problem.title or name, ends, coefficients, "yes" if problem.reference else "no"])
    show_table(["problem", "equation", "domain", "coefficients", "reference"], rows)
    show_line(f"methods: {', '.join(METHODS.names())}. Solve one with `evolvent solve NAME --budget 5m`.")


def _options(given: list[str]) -> dict[str, Any]:
    from evolvent._core.errors import ConfigError
    from evolvent._core.yaml_text import parse_yaml

    found: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals:
            raise ConfigError(f"--option takes name=value such as viscosity=0.01, got {one!r}.")
        found[name.strip()] = parse_yaml(text, f"the value of --option {name.strip()}")
    return found


def _folder(problem: str, options: dict[str, Any], method: str, budget: str, settings: list[str]) -> Path:
    """Where a run lies unless told: the id changes with what was asked for."""
    import hashlib

    from evolvent._core.slugs import slug

    asked = repr((problem, sorted(options.items()), method, budget, settings))
    return Path("runs") / f"solve-{slug(problem)}" / hashlib.sha256(asked.encode()).hexdigest()[:8]


def _compute_reference(name: str, options: dict[str, Any], csv: Path | None, npz: Path | None) -> None:
    from evolvent._core.errors import ConfigError
    from evolvent.cli.display import show_line, working
    from evolvent.equations.problems import create_problem, with_stored_reference
    from evolvent.equations.problems.stored import stored_path

    problem = with_stored_reference(create_problem(name, **options), options)
    if problem.reference is None:
        raise ConfigError(f"problem {name!r} has no reference.")
    began = time.perf_counter()
    with working(f"computing the reference of {name}"):
        reference = problem.solution
    took = time.perf_counter() - began
    change = getattr(reference, "difference", None)
    accuracy = "closed form" if change is None else f"steps twice as long change it by {change:.1e}"
    show_line(f"{problem.title or name}: {accuracy}, {took:.1f} s")
    path = stored_path(name, options)
    if path.is_file():
        show_line(f"stored: {path}")
    for written in _write_reference(problem, csv, npz):
        show_line(f"values: {written}")


def _write_reference(problem: Problem, csv: Path | None, npz: Path | None) -> list[Path]:
    from evolvent.solving.grids import write_grid_csv, write_grid_npz

    values = lambda points: problem.solution(points).numpy()  # noqa: E731
    written = [write_grid_csv(csv, problem, values)] if csv else []
    return [*written, *([write_grid_npz(npz, problem, values)] if npz else [])]


def _write_grids(solution: Solution, csv: Path | None, npz: Path | None) -> list[Path]:
    written = [solution.write_csv(csv)] if csv else []
    return [*written, *([solution.write_npz(npz)] if npz else [])]


def _show(solution: Solution) -> None:
    from evolvent.cli.display import show_line, show_table
    from evolvent.report.tables import plain_rows
    from evolvent.solving.verdicts import coefficients_table, trust_table

    assert solution.trust is not None
    tables = [trust_table(solution.trust), *([coefficients_table(solution.estimates)] if solution.estimates else [])]
    for table in tables:
        show_table(table.columns, plain_rows(table), title=table.title)
    show_line(solution.trust.verdict)
