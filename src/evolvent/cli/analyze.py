"""``evolvent analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from torch import Tensor, nn


def analyze(
    run: Annotated[Path, typer.Argument(help="A run folder, of one training or of a grid.")],
    what: Annotated[str, typer.Argument(help="stability, cost, field-of-view or spectra.")],
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
    inputs: Annotated[int, typer.Option(min=2, help="Inputs to look at, at most.")] = 8,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the JSON files; else analysis/ in the run, which the report shows.")
    ] = None,
) -> None:
    """Measure the trained networks of a run: stability, cost per layer, field of view, spectra of the maps."""
    from evolvent._core.errors import ConfigError, UnknownNameError
    from evolvent.cli.display import show_line, show_table, working
    from evolvent.experiments.record import cell_folders, is_finished
    from evolvent.report import write_report
    from evolvent.report.analyses import ANALYSES, analysis_path, measure, warnings, write_analysis

    if what not in ANALYSES:
        raise UnknownNameError("analysis", what, ANALYSES, f"Known are {', '.join(ANALYSES)}.")
    folders = [folder for folder in cell_folders(run) if is_finished(folder)]
    if not folders:
        raise ConfigError(f"no training in {run} is finished. Continue it with `evolvent run ... --resume` first.")
    for folder in folders:
        name, label, model, batch = _trained(folder, data, inputs, as_trained=what == "cost")
        with working(f"measuring {label}"):
            found = measure(what, model, batch)
        columns, rows = ANALYSES[what].rows(found)
        show_table(columns, rows, title=label)
        for warning in warnings(what, found):
            show_line(f"warning: {warning}")
        write_analysis(analysis_path(folder, what) if out is None else out / name / f"{what}.json", what, found)
    if out is None:
        with working("drawing the report"):
            report = write_report([run], run / "report.html")
        show_line(f"report: {report}")


def _trained(folder: Path, data: Path | None, count: int, as_trained: bool) -> tuple[str, str, nn.Module, Tensor]:
    """Folder name and label of a cell, its saved network, perhaps with its gradient strategy, and example inputs."""
    from evolvent import set_gradient
    from evolvent._core.errors import ConfigError
    from evolvent.experiments.engine import DataShelf
    from evolvent.experiments.record import read_record
    from evolvent.networks import load

    cell = read_record(folder).cell
    material = DataShelf(data).material(cell)
    if material.example is None:
        raise ConfigError(f"{cell.label}: the task {cell.task.name} has no example inputs to analyze it with.")
    model = load(folder / "model")
    set_gradient(model, cell.training.gradient if as_trained else "backprop")
    return cell.folder_name, cell.label, model, material.example[:count].clone()
