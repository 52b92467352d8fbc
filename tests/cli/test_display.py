"""What the terminal shows while trainings run."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from evolvent.cli import display
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.observer import TrainingProgress
from evolvent.experiments.record import Cost, Result
from evolvent.tasks.findings import Figure

COST = Cost(56858, 11_200_000, 25_000_000, 50, "backprop", "cpu")
KINDS = [Figure("accuracy", "accuracy", "share", "higher"), Figure("error", "error", "share", shown=False),
         Figure("loss", "loss")]  # fmt: skip
RESULT = Result({"accuracy": 0.975, "error": 0.025, "loss": 0.1}, KINDS, COST, "images", 2, 2, 160, 7.0, 1100.0)


@pytest.fixture
def screen(monkeypatch):
    def show(terminal: bool) -> Console:
        console = Console(force_terminal=terminal, width=120, record=True, highlight=False, file=io.StringIO())
        monkeypatch.setattr(display, "console", console)
        return console

    return show


def standing(epoch: int = 1, steps: int | None = 160, epochs: int | None = 2) -> TrainingProgress:
    figures = {"loss": 0.512, "accuracy": 0.851, "error": 0.149}
    return TrainingProgress(80, steps, epoch, epochs, figures, "images", 1100.0, 3.6, 0.5, epoch_ends=True)


def test_figures_are_written_in_their_units():
    line = display.progress_line(standing(), KINDS)
    assert line == "epoch 1/2  loss 0.512  accuracy 85.1 %  1,100 images/s  3.6 s left"
    assert display.progress_line(standing(epochs=None), KINDS).startswith("step 80/160  loss")
    assert display.progress_line(standing(epochs=None, steps=None), KINDS).startswith("epoch 1  loss")


@pytest.mark.parametrize("terminal", [True, False])
def test_one_line_for_each_network_and_each_training(screen, terminal):
    console = screen(terminal)
    recipe = load_recipe("demo")
    cell = recipe.cells()[0]
    observer = display.TerminalObserver(recipe)
    observer.grid_starts([cell], "some digits")
    observer.network_measured(cell, COST, "the step 9 [of Verlet()] is too large")
    observer.cell_starts(cell, Path("run"), resumed=True)
    observer.cell_progresses(cell, standing())
    if terminal:
        observer._progress.refresh()
    observer.cell_ends(cell, Path("run"), RESULT)
    observer.cell_skipped(cell, Path("run"), RESULT)
    text = console.export_text()
    for part in ("56,858 parameters", "11.2 M", "some digits", f"warning: {cell.variant}: the step 9 [of Verlet()]",
                 "resumes", cell.label, "loss 0.512", "accuracy 85.1 %", "1,100 images/s", "3.6 s left",
                 "test accuracy 97.5 %", "finished before"):  # fmt: skip
        assert part in text, part
    assert "error" not in text


def test_trainings_side_by_side_have_a_bar_each(screen):
    console = screen(True)
    recipe = load_recipe("demo")
    one, other = recipe.cells()[:2]
    observer = display.TerminalObserver(recipe)
    for cell in (one, other):
        observer.cell_starts(cell, Path("run"), resumed=False)
        observer.cell_progresses(cell, standing())
    assert len(observer._progress.tasks) == 2
    observer.cell_fails(one, Path("run"), "the loss is not finite")
    assert [task.description for task in observer._progress.tasks] == [other.label]
    observer.cell_ends(other, Path("run"), RESULT)
    assert observer._progress is None
    assert f"✗ {one.label}: the loss is not finite" in console.export_text()


def test_a_training_that_was_not_announced_is_told_too(screen):
    console = screen(True)
    recipe = load_recipe("demo")
    display.TerminalObserver(recipe).cell_fails(recipe.cells()[0], Path("run"), "no [space] left")
    assert "no [space] left" in console.export_text()


def test_work_that_takes_its_time_shows_how_far_it_is(screen):
    console = screen(terminal=True)
    with display.working("measuring [a]") as tell:
        tell(0.4)
    assert "measuring [a], 40 %" in console.export_text()


def test_the_title_names_data_that_are_not_the_recipes(screen):
    console = screen(terminal=False)
    recipe = load_recipe("demo", ["data.name=digits"])
    display.TerminalObserver(recipe).grid_starts(recipe.cells(), "here")
    assert f"{recipe.title} (here on digits)" in console.export_text().splitlines()[0]
