"""What the terminal shows: tables, and a line for each training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table

from evolvent.experiments.departures import departure_sentence, title_on
from evolvent.experiments.observer import Observer, TrainingProgress
from evolvent.experiments.recipe import Cell, Recipe
from evolvent.experiments.record import Cost, Result
from evolvent.report.honesty import data_names, difference_sentence
from evolvent.report.numbers import NONE, count, duration, memory, percent, short, write
from evolvent.report.runs import Run
from evolvent.report.summary import SummaryRow, shown_figures, summary_rows
from evolvent.tasks.findings import Figure

console = Console(highlight=False)
if not console.is_terminal:
    console.width = 130  # a log file has no width of its own

_ROWS = 60  # variants in the summary at most


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table; columns of numbers are aligned at the right."""
    table = Table(*map(escape, columns), title=None if title is None else escape(title), title_justify="left",
                  header_style="bold")  # fmt: skip
    for position, column in enumerate(table.columns):
        if rows and all(row[position][:1].isdigit() or row[position][:1] in (NONE, "−") for row in rows):
            column.justify = "right"
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def show_line(text: str) -> None:
    """Print a line that is not wrapped."""
    console.print(escape(text), soft_wrap=True)


def show_warning(text: str) -> None:
    """Print a warning, unless it is empty."""
    if text:
        console.print(f"[yellow]warning:[/yellow] {escape(text)}", soft_wrap=True)


@contextmanager
def working(what: str) -> Iterator[Callable[[float], None]]:
    """A spinner while something takes its time; called with the share that is done, what it yields shows it."""
    with console.status(escape(what)) as status:
        yield lambda share: status.update(f"{escape(what)}, {percent(share, 0)}")


class TerminalObserver(Observer):
    """A line for each network, then one for each training: a bar on a terminal, a line per epoch in a log."""

    def __init__(self, recipe: Recipe | None = None) -> None:
        self.recipe = recipe
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}  # of the trainings that run

    def grid_starts(self, cells: list[Cell], origin: str) -> None:
        if self.recipe:
            title = title_on(self.recipe, (cell.data_name for cell in cells))
            console.print(f"[bold]{escape(title)}[/bold]", soft_wrap=True)
            if said := departure_sentence(self.recipe):
                show_line(said)
        show_line(f"data: {origin}")
        variants = len({cell.variant for cell in cells})
        show_line(f"{count(len(cells))} training{'s' if len(cells) > 1 else ''} of {count(variants)} variant"
                  f"{'s' if variants > 1 else ''}")  # fmt: skip

    def network_measured(self, cell: Cell, cost: Cost, advice: str) -> None:
        show_line(f"{cell.variant}: {_cost_line(cost)}")
        show_warning(advice and f"{cell.variant}: {advice}")

    def cell_skipped(self, cell: Cell, folder: Path, result: Result) -> None:
        show_line(f"✓ {cell.label}: finished before, {_test_figures(result)}")

    def cell_branches(self, cell: Cell, text: str) -> None:
        show_line(f"{cell.label}: {text}")

    def cell_starts(self, cell: Cell, folder: Path, resumed: bool) -> None:
        if resumed:
            show_line(f"{cell.label}: resumes from the last checkpoint")
        if console.is_terminal:
            if self._progress is None:
                self._progress = _new_bars()
                self._progress.start()
            self._bars[cell.label] = self._progress.add_task(escape(cell.label), standing="starting", total=1.0)

    def cell_warns(self, cell: Cell, text: str) -> None:
        show_warning(f"{cell.label}: {text}")

    def cell_progresses(self, cell: Cell, progress: TrainingProgress) -> None:
        text = self.text(cell, progress)
        if self._progress and cell.label in self._bars:
            self._progress.update(self._bars[cell.label], completed=progress.share_done, standing=text)
        elif progress.epoch_ends:
            show_line(f"{cell.label}: {text}")

    def text(self, cell: Cell, progress: TrainingProgress) -> str:
        """Where a training stands, in a line."""
        return progress_line(progress, cell.kind.figures)

    def cell_ends(self, cell: Cell, folder: Path, result: Result) -> None:
        speed = "" if result.rows_per_second is None else f"  {_rate(result.rows_per_second)} {result.rows}/s"
        self._finish(cell, f"✓ {cell.label}: {_test_figures(result)}  {duration(result.seconds)}{speed}")
        for turn, reason in result.stopped.items():
            show_line(f"  optimiser of {turn} stopped: {reason}")

    def cell_fails(self, cell: Cell, folder: Path, reason: str) -> None:
        self._finish(cell, f"✗ {cell.label}: {reason}")

    def close(self) -> None:
        """End the bars, so that a message after an error or a signal stands below them and the cursor is back."""
        if self._progress:
            self._progress.stop()
        self._progress = None

    def _finish(self, cell: Cell, text: str) -> None:
        """Replace a training's bar by a line; bars end with the last running training."""
        bar = self._bars.pop(cell.label, None)
        if self._progress and bar is not None:
            self._progress.remove_task(bar)
            if not self._bars:
                self.close()
        show_line(text)


def _new_bars() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24))
    return Progress(*columns, TextColumn("{task.fields[standing]}"), console=console)


def progress_line(progress: TrainingProgress, kinds: Sequence[Figure]) -> str:
    """Where a training stands: epoch, figures in their units, speed, and time left."""
    of = f"/{progress.epochs}" if progress.epochs else ""
    parts = [f"epoch {progress.epoch}{of}"]
    if not progress.epochs and progress.steps:
        parts = [f"step {count(progress.step)}/{count(progress.steps)}"]
    known = {kind.name: kind for kind in kinds}
    for name, value in progress.figures.items():
        kind = known.get(name, Figure(name, name))
        if kind.shown:
            parts.append(f"{kind.title} {write(value, kind.unit)}")
    parts.append(f"{_rate(progress.rows_per_second)} {progress.rows}/s")
    return "  ".join([*parts, f"{duration(progress.seconds_left)} left"])


def _rate(rows_per_second: float) -> str:
    return count(rows_per_second) if rows_per_second >= 10 else write(rows_per_second, digits=2)


def _test_figures(result: Result) -> str:
    """The score on the test data, and what else is shown."""
    measured = [kind for kind in result.kinds if kind.name in result.figures or kind is result.score]
    shown = [kind for kind in measured if kind.shown or kind is result.score]
    return "test " + ", ".join(f"{kind.title} {write(result.figures.get(kind.name), kind.unit)}" for kind in shown)


def _cost_line(cost: Cost) -> str:
    parts = [f"{count(cost.parameters)} parameters"]
    if cost.multiply_adds is not None:
        parts.append(f"{short(cost.multiply_adds)} multiply-adds")
    if cost.activation_bytes is not None:
        parts.append(f"{memory(cost.activation_bytes)} of activations")
    return ", ".join([*parts, f"batch {count(cost.batch_size)}", cost.gradient, cost.device])


def show_summary(run: Run, report: Path) -> None:
    """A grid's table, and where the report lies."""
    rows = [row for row in summary_rows(run) if row.n]
    figures = [figure for figure in shown_figures(rows) if any(row.figures.get(figure.name) for row in rows)]
    parts = ("median", "mean", "std") if any(row.n > 1 for row in rows) else ("median",)
    columns = ["variant", *(f"{figure.title}, {part}" for figure in figures[:1] for part in parts)]
    columns += [f"{figure.title}, median" for figure in figures[1:]]
    if parts == ("median",):  # of one seed
        columns = [column.removesuffix(", median") for column in columns]
    cells = [_summary_row(row, figures, parts) for row in rows[:_ROWS]]
    show_table([*columns, "seeds", "parameters", "time each"], cells, title=f"data: {', '.join(data_names(run))}")
    scores = dict.fromkeys(row.score for row in rows if row.score)
    for said in (difference_sentence([row for row in rows if row.score == score]) for score in scores):
        if said:
            show_line(said)
    if len(rows) > _ROWS:
        show_line(f"the first {_ROWS} of {count(len(rows))} variants; summary.csv has all of them")
    show_line(f"report: {report}")


def _summary_row(row: SummaryRow, figures: Sequence[Figure], parts: Sequence[str]) -> list[str]:
    """``parts`` are those shown of the score; of other figures it is the median."""
    cells = [row.variant]
    for place, figure in enumerate(figures):
        found = row.figures.get(figure.name)
        digits = 2 if figure.unit == "share" else None
        cells += [write(getattr(found, p, None), figure.unit, digits) for p in (parts if place == 0 else ("median",))]
    parameters = row.cost.parameters if row.cost else None
    return [*cells, count(row.n), count(parameters), duration(row.seconds.median if row.seconds else None)]
