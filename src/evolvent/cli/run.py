"""``evolvent run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. optimizer.lr=0.05.")
]


def run(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe (see `evolvent recipes`) or a YAML file.")],
    settings: Settings = None,
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/<recipe>/<id>.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run, skipping what is finished.")] = False,
    devices: Annotated[int, typer.Option(min=1, help="GPUs, or CPU processes, on each node.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes that share each training.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="Run with this seed alone.")] = None,
) -> None:
    """Train what a recipe describes, and write a report."""
    from evolvent._core.files import write_text
    from evolvent.cli.display import TerminalObserver, show_summary
    from evolvent.experiments.catalogue import load_recipe
    from evolvent.experiments.engine import Resources
    from evolvent.experiments.grid import is_main_process, run_folder, run_grid
    from evolvent.experiments.observer import Observer
    from evolvent.report import summary_csv, write_report

    chosen = load_recipe(recipe, settings or (), seed)
    folder = run_folder(chosen, out)
    observer = TerminalObserver(chosen) if is_main_process() else Observer()
    resources = Resources(devices, nodes)
    run_grid(chosen, folder, resume=resume, data_folder=data, resources=resources, observer=observer)
    if is_main_process():
        write_text(folder / "summary.csv", summary_csv(folder))
        report = write_report([folder], folder / "report.html")
        show_summary(folder, report)
