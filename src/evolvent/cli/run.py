"""``evolvent run``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evolvent.experiments.recipe import Recipe, StudyRecipe

Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. optimizer.lr=0.05.")
]
Changes = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings to change, as with --set.")]


def run(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe (see `evolvent recipes`) or a YAML file.")],
    changes: Changes = None,
    settings: Settings = None,
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/<recipe>/<id>.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run, skipping what is finished.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Trainings side by side on this machine.")] = 1,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run trainings as tasks of a Ray cluster.")] = None,
    devices: Annotated[int, typer.Option(min=1, help="GPUs, or CPU processes, on each node.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes that share each training.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="Run with this seed alone.")] = None,
) -> None:
    """Train what a recipe describes, or run the study it names, and write a report."""
    from evolvent._core.errors import ConfigError
    from evolvent._core.launchers import is_main_process
    from evolvent.cli.display import show_warning
    from evolvent.experiments.catalogue import erased_differences, load_recipe
    from evolvent.experiments.departures import noting_changes
    from evolvent.experiments.engine import Resources
    from evolvent.experiments.freed_memory import keep_freed_memory
    from evolvent.experiments.recipe import Recipe, StudyRecipe

    settings = [*(settings or ()), *_plain_settings(changes or ())]
    chosen = load_recipe(recipe, settings, seed)
    if settings and isinstance(chosen, Recipe):
        chosen = noting_changes(chosen, recipe, settings)
        for line in erased_differences(recipe, settings) if is_main_process() else ():
            show_warning(line)
    keep_freed_memory()
    if isinstance(chosen, StudyRecipe):
        if data is not None or ray is not None or devices * nodes * workers > 1:
            raise ConfigError(
                f"{chosen.name} is a study: it makes its own data in one process. "
                "Leave out --data, --workers, --ray, --devices and --nodes."
            )
        _run_study(chosen, out, resume)
    else:
        resources = Resources(devices, nodes)
        _train(chosen, out, resume, data_folder=data, resources=resources, workers=workers, ray=ray)


def _train(recipe: Recipe, out: Path | None, resume: bool, **options: Any) -> None:
    """Run the cells of a recipe, and show and report those that finished; ``options`` are those of ``run_grid``."""
    from evolvent._core.files import write_text
    from evolvent._core.launchers import is_main_process
    from evolvent.cli.display import TerminalObserver, show_summary, working
    from evolvent.experiments.branches import Branch, find_branch
    from evolvent.experiments.grid import CellsFailedError, run_folder, run_grid
    from evolvent.experiments.observer import Observer
    from evolvent.report import read_run, summary_csv, write_report

    branch = find_branch(recipe, out) if resume else Branch(run_folder(recipe, out), None)
    folder = branch.folder
    observer = TerminalObserver(recipe) if is_main_process() else Observer()
    failed = None
    try:
        run_grid(recipe, folder, resume=resume, observer=observer, parent=branch.parent, **options)
    except CellsFailedError as error:  # the others are finished and shown
        failed = error
    finally:
        observer.close()
    if is_main_process():
        with working("drawing the report"):
            found = read_run(folder)
            write_text(folder / "summary.csv", summary_csv(found))
            report = write_report([found], folder / "report.html")
        show_summary(found, report)
    if failed:
        raise failed


def _plain_settings(changes: Sequence[str]) -> Sequence[str]:
    """The arguments after a recipe, all of which must be settings."""
    from evolvent._core.errors import ConfigError, shortened

    for change in changes:
        if "=" not in change:
            raise ConfigError(
                "after the recipe come settings as KEY=VALUE, such as optimizer.lr=0.05, got "
                f"{shortened(repr(change))}. `evolvent run` takes one recipe at a time."
            )
    return changes


def _run_study(recipe: StudyRecipe, out: Path | None, resume: bool) -> None:
    from rich.markup import escape

    from evolvent.cli.display import console, show_line
    from evolvent.experiments.grid import run_folder
    from evolvent.experiments.studies.run_folder import run_study, study_is_finished
    from evolvent.report import write_report

    folder = run_folder(recipe, out)
    console.print(f"[bold]{escape(recipe.title)}[/bold]", soft_wrap=True)
    before = study_is_finished(folder, recipe.seeds)
    with console.status("starting") as line:
        next_shown = [0.0]

        def tell(share: float, text: str) -> None:
            """One moving line on a terminal; a line at every tenth in a log."""
            line.update(f"{share:4.0%}  {escape(text)}")
            if not console.is_terminal and share >= next_shown[0]:
                show_line(f"{share:4.0%}  {text}")
                next_shown[0] = share + 0.1

        found = run_study(recipe, folder, resume=resume, tell=tell)
        report = write_report([folder], folder / "report.html")
    if before:
        show_line(f"✓ {recipe.name}: finished before")
    for entry in found:
        show_line(entry.findings.answer)
    show_line(f"report: {report}")
