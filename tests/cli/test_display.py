"""What the terminal shows while a training goes on."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from evolvent.cli import display
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.observer import Progress
from evolvent.experiments.record import Cost, Result

COST = Cost(56858, 11_200_000, 25_000_000, 50, "backprop", "cpu")
RESULT = Result(["0"], COST, 0.975, None, 0.1, [0.975], 2, 2, 160, 7.0, 1100.0)


@pytest.fixture
def screen(monkeypatch):
    def show(terminal: bool) -> Console:
        console = Console(force_terminal=terminal, width=120, record=True, highlight=False, file=io.StringIO())
        monkeypatch.setattr(display, "console", console)
        return console

    return show


@pytest.mark.parametrize("terminal", [True, False])
def test_one_line_per_training_with_loss_accuracy_speed_and_time_left(screen, terminal):
    console = screen(terminal)
    recipe = load_recipe("demo")
    cell = recipe.cells()[0]
    observer = display.TerminalObserver(recipe)
    observer.grid_starts([cell], {cell.variant: COST}, "some digits")
    observer.network_advised("hamiltonian", "the step 9 [of Verlet()] is too large")
    observer.cell_starts(cell, Path("run"), resumed=True)
    observer.cell_progresses(cell, Progress(80, 160, 1, 2, 0.512, 0.851, 1100.0, 3.6, epoch_ends=True))
    if terminal:
        observer._bars.refresh()
    observer.cell_ends(cell, Path("run"), RESULT)
    observer.cell_skipped(cell, Path("run"), RESULT)
    text = console.export_text()
    for part in ("56,858", "11.2 M", "some digits", "warning: hamiltonian: the step 9 [of Verlet()]",
                 "going on", "hamiltonian-seed0", "loss 0.512", "acc 85.1 %",
                 "1,100 img/s", "3.6 s left", "97.50 %", "finished before"):  # fmt: skip
        assert part in text, part
