"""``evolvent evaluate`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder, or a grid's.")],
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
) -> None:
    """Test the saved models of a run anew."""
    from evolvent.cli.display import show_table, working
    from evolvent.experiments.engine import evaluate_run
    from evolvent.experiments.record import cell_folders

    for folder in cell_folders(run):
        with working(f"testing {folder}"):
            cell, classes, figures = evaluate_run(folder, data)
        rows = [["accuracy", f"{figures['accuracy']:.2%}"], ["loss", f"{figures['loss']:.4f}"]]
        rows += [["top-5", f"{figures['top5']:.2%}"]] if figures["top5"] is not None else []
        rows += [["mIoU", f"{figures['miou']:.2%}"]] if "miou" in figures else []
        rows += [[f"class {name}", f"{share:.2%}"] for name, share in zip(classes, figures["per_class"], strict=True)]
        rows += [
            [f"IoU {name}", "–" if share is None else f"{share:.2%}"]
            for name, share in zip(classes, figures.get("iou") or [], strict=False)
        ]
        show_table([cell.label, f"on {cell.data.name}"], rows)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several are compared side by side.")],
    out: Annotated[
        Path | None, typer.Option(help="HTML file; else report.html in the run, or here for several.")
    ] = None,
) -> None:
    """Write one HTML file with the pictures and tables of one or more runs."""
    from evolvent.cli.display import working
    from evolvent.report import write_report

    target = out or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"))
    with working("drawing the report"):
        written = write_report(runs, target)
    print(f"report: {written}")
