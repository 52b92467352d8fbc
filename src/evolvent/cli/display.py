"""What the terminal shows: tables, and one progress line per training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table

from evolvent.experiments.observer import Observer
from evolvent.experiments.observer import Progress as Standing
from evolvent.experiments.recipe import Cell, Recipe
from evolvent.experiments.record import Cost, Result
from evolvent.report.numbers import count, duration, memory, percent, short
from evolvent.report.summary import SummaryRow, summary_rows

console = Console(highlight=False)
if not console.is_terminal:
    console.width = 130  # a log file has no width of its own


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table; columns of numbers are aligned at the right."""
    table = Table(*columns, title=title, title_justify="left", header_style="bold")
    for position, column in enumerate(table.columns):
        if rows and all(row[position][:1].isdigit() or row[position] == "–" for row in rows):
            column.justify = "right"
    for row in rows:
        table.add_row(*row)
    console.print(table)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A moving sign while something takes its time."""
    with console.status(what):
        yield


class TerminalObserver(Observer):
    """A table of costs first, then one line per training: a bar on a terminal, a line per epoch in a log."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._bars = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[standing]}"),
            console=console,
        )
        self._bar: TaskID | None = None

    def grid_starts(self, cells: list[Cell], costs: dict[str, Cost], source: str) -> None:
        console.print(f"[bold]{self.recipe.title}[/bold]\ndata: {source}")
        columns = ["network", "parameters", "multiply-adds", "activations", "batch", "gradient", "device"]
        show_table(columns, [_cost_row(variant, cost) for variant, cost in costs.items()])

    def network_advised(self, variant: str, advice: str) -> None:
        console.print(f"[yellow]warning:[/yellow] {escape(f'{variant}: {advice}')}", soft_wrap=True)

    def cell_skipped(self, cell: Cell, folder: Path, result: Result) -> None:
        console.print(f"✓ {cell.label}: finished before, {_score(result)}")

    def cell_starts(self, cell: Cell, folder: Path, resumed: bool) -> None:
        if resumed:
            console.print(f"{cell.label}: going on from the last checkpoint")
        if console.is_terminal:
            self._bars.start()
            self._bar = self._bars.add_task(cell.label, standing="starting")

    def cell_progresses(self, cell: Cell, progress: Standing) -> None:
        text = (
            f"epoch {progress.epoch}/{progress.epochs}  loss {progress.loss:.3f}  acc {percent(progress.accuracy)}  "
            f"{progress.images_per_second:,.0f} img/s  {duration(progress.seconds_left)} left"
        )
        if self._bar is not None:
            self._bars.update(self._bar, completed=progress.step, total=progress.steps, standing=text)
        elif progress.epoch_ends:
            console.print(f"{cell.label}: {text}", soft_wrap=True)

    def cell_ends(self, cell: Cell, folder: Path, result: Result) -> None:
        speed = f"{duration(result.seconds)}  {result.images_per_second:,.0f} img/s"
        text = f"{_score(result)}  {speed}"
        if self._bar is not None:
            self._bars.update(self._bar, completed=result.steps, total=result.steps, standing=text)
            self._bars.stop()
            self._bar = None
        else:
            console.print(f"✓ {cell.label}: {text}", soft_wrap=True)


def _score(result: Result) -> str:
    if result.miou is None:
        return f"test accuracy {percent(result.accuracy, 2)}"
    return f"test mIoU {percent(result.miou, 2)}, {percent(result.accuracy, 2)} of pixels"


def _cost_row(variant: str, cost: Cost) -> list[str]:
    sizes = [count(cost.parameters), short(cost.multiply_adds), memory(cost.activation_bytes)]
    return [variant, *sizes, str(cost.batch_size), cost.gradient, cost.device]


def show_summary(folder: Path, report: Path) -> None:
    """The grid's table, and where the report lies."""
    found = [row for row in summary_rows(folder) if row.score and row.accuracy and row.cost and row.seconds]
    of_pixels = any(row.miou for row in found)
    columns = ["network", f"{'mIoU' if of_pixels else 'accuracy'} (median)", "mean", "std"]
    columns += ["pixel accuracy (median)"] if of_pixels else []
    rows = [[row.variant, *_shares(row, of_pixels), str(row.n), *_size(row)] for row in found]
    show_table([*columns, "seeds", "parameters", "time each"], rows)
    console.print(f"report: {report}", soft_wrap=True)


def _shares(row: SummaryRow, of_pixels: bool) -> list[str]:
    assert row.score
    assert row.accuracy
    shares = [percent(value, 2) for value in (row.score.median, row.score.mean, row.score.std)]
    return shares + ([percent(row.accuracy.median, 2)] if of_pixels else [])


def _size(row: SummaryRow) -> list[str]:
    assert row.cost
    assert row.seconds
    return [count(row.cost.parameters), duration(row.seconds.median)]
