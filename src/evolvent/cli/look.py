"""``evolvent evaluate`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder, of one training or of a grid.")],
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
) -> None:
    """Test the saved models of a run again."""
    from evolvent.cli.display import show_table, working
    from evolvent.experiments.record import cell_folders
    from evolvent.experiments.trained import evaluate_run
    from evolvent.report.numbers import write
    from evolvent.report.tables import plain_rows

    for folder in cell_folders(run):
        with working(f"testing {folder}"):
            cell, kinds, findings = evaluate_run(folder, data)
        named = {kind.name: kind for kind in kinds}
        rows = []
        for name, value in findings.figures.items():
            kind = named.get(name)
            digits = 2 if kind and kind.unit == "share" else None
            rows.append([kind.title if kind else name, write(value, kind.unit if kind else "number", digits)])
        show_table([cell.label, "test"], rows)
        for table in findings.tables:
            show_table(table.columns, plain_rows(table), title=f"{cell.label}: {table.title}")


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several are compared side by side.")],
    out: Annotated[
        Path | None, typer.Option(help="HTML file; else report.html in the run, or here for several.")
    ] = None,
) -> None:
    """Write one HTML file with the pictures and tables of one or more runs."""
    from evolvent.cli.display import show_line, working
    from evolvent.report import write_report

    target = out or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    with working("drawing the report"):
        written = write_report(runs, target)
    show_line(f"report: {written}")
