"""Finished trainings, for commands that look at them and then draw their reports again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from evolvent._core.errors import ConfigError
from evolvent.cli.display import show_line, show_warning, working
from evolvent.experiments.engine import DataShelf
from evolvent.experiments.record import cell_folders, is_finished
from evolvent.experiments.trained import TrainedCell, load_trained
from evolvent.report import write_report


def finished_trainings(runs: Sequence[Path], data: Path | None) -> Iterator[tuple[Path, Path, TrainedCell]]:
    """The finished trainings of runs, read one by one: the run, the training's folder, and what it holds."""
    folders = [(run, folder) for run in runs for folder in cell_folders(run) if is_finished(folder)]
    if not folders:
        where = str(runs[0]) if len(runs) == 1 else "these runs"
        raise ConfigError(f"no training in {where} is finished. Continue it with `evolvent run ... --resume` first.")
    shelf = DataShelf(data)
    for run, folder in folders:
        with working(f"reading {folder}"):
            trained = load_trained(folder, shelf)
        show_warning(trained.warning)
        yield run, folder, trained


def draw_report(run: Path) -> None:
    """Write the report of a run into its folder, and say where it lies."""
    with working("drawing the report"):
        report = write_report([run], run / "report.html")
    show_line(f"report: {report}")
