"""``evolvent report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several are compared side by side.")],
    out: Annotated[
        Path | None, typer.Option(help="HTML file; else report.html in the run, or here for several.")
    ] = None,
) -> None:
    """Write one HTML file with the pictures and tables of one or more runs."""
    from evolvent.cli.display import show_line, show_warning, working
    from evolvent.report import write_report
    from evolvent.report.honesty import data_warning
    from evolvent.report.runs import read_runs

    target = out or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    with working("drawing the report"):
        written = write_report(runs, target)
    if len(runs) > 1 and (said := data_warning(read_runs(runs))):
        show_warning(said)
    show_line(f"report: {written}")
