"""Runs a recipe cell by cell: resumable, skipping what is finished, one after the other or side by side."""

from __future__ import annotations

from pathlib import Path

from evolvent._core.errors import ConfigError
from evolvent._core.slugs import slug
from evolvent.experiments.engine import DataShelf, Prepared, Resources, advise_on_steps, measure_cost, prepare, run_cell
from evolvent.experiments.lock import is_main_process, locked, refuse_other_run
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import Cell, Recipe
from evolvent.experiments.record import Cost, Result, read_cell, read_recipe, read_result, write_config

_CHECKED_FIRST = 24  # variants that are built and measured before anything is written; further ones when they begin


def run_folder(recipe: Recipe, out: Path | None = None) -> Path:
    """Where a recipe's run lies: ``runs/<recipe>/<id>``, where the id changes with what the recipe says."""
    return out or Path("runs") / slug(recipe.name) / recipe.identity


def cell_folders_of(cells: list[Cell], folder: Path) -> dict[str, Path]:
    """The folder of each cell by its label: the run folder itself for a single cell, else one below ``cells/``.

    A run of one cell to which more are added keeps that cell where it is.
    """
    first = read_cell(folder)
    alone = first.label if first else cells[0].label if len(cells) == 1 and not (folder / "cells").is_dir() else None
    return {cell.label: folder if cell.label == alone else folder / "cells" / cell.folder_name for cell in cells}


def run_grid(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    data_folder: Path | None = None,
    resources: Resources | None = None,
    observer: Observer | None = None,
    workers: int = 1,
    ray: str | None = None,
) -> dict[str, Result]:
    """Run all cells that are not finished; results by cell label.

    Args:
        recipe: what to run.
        folder: the run folder.
        resume: go on with a run that the folder holds; seeds may have been added to it.
        data_folder: where to look for data sets.
        resources: processes that share each training.
        observer: who looks on.
        workers: cells that run side by side on this machine, each in a process of its own.
        ray: address of a Ray cluster that runs the cells instead, or ``"local"``.

    Raises:
        ConfigError: if the folder holds a run already and ``resume`` is not set; before anything is written.
    """
    resources, observer = resources or Resources(), observer or Observer()
    cells = recipe.cells()
    if is_main_process():
        earlier = read_recipe(folder)
        refuse_other_run(earlier.identity if earlier else None, recipe.identity, folder, resume)
    folders = cell_folders_of(cells, folder)
    shelf = DataShelf(data_folder)
    ready = _prepare_variants(cells, shelf, resources)
    with locked(folder):
        if is_main_process():
            write_config(folder / "recipe.yaml", _with_earlier_seeds(recipe, folder))
        observer.grid_starts(cells, "; ".join(dict.fromkeys(one.material.origin for one in ready.values())))
        return _run_in_turn(cells, folders, shelf, ready, resources, observer)


def _prepare_variants(cells: list[Cell], shelf: DataShelf, resources: Resources) -> dict[str, Prepared]:
    """The first cell of each variant, ready to be trained; of many variants only the first ones."""
    firsts = {cell.variant: cell for cell in reversed(cells)}
    order = list(dict.fromkeys(cell.variant for cell in cells))[:_CHECKED_FIRST]
    return {firsts[v].label: prepare(firsts[v], shelf.material(firsts[v]), resources) for v in order}


def _run_in_turn(
    cells: list[Cell],
    folders: dict[str, Path],
    shelf: DataShelf,
    ready: dict[str, Prepared],
    resources: Resources,
    observer: Observer,
) -> dict[str, Result]:
    costs: dict[str, Cost] = {}
    results: dict[str, Result] = {}
    for cell in cells:
        where = folders[cell.label]
        prepared = ready.pop(cell.label, None)
        result = finished_result(cell, where)
        if result:
            observer.cell_skipped(cell, where, result)
        else:
            prepared = prepared or prepare(cell, shelf.material(cell), resources)
            if cell.variant not in costs:
                costs[cell.variant] = measure_cost(prepared)
                observer.network_measured(cell, costs[cell.variant], advise_on_steps(prepared))
            observer.cell_starts(cell, where, resumed=(where / "checkpoints").exists())
            result = run_cell(prepared, where, costs[cell.variant], resources, observer)
            observer.cell_ends(cell, where, result)
        results[cell.label] = result
    return results


def finished_result(cell: Cell, folder: Path) -> Result | None:
    """The result of a cell that was finished before; None if it is still to be trained.

    Raises:
        ConfigError: if the folder holds a cell with other settings.
    """
    earlier = read_cell(folder)
    if earlier is not None and earlier != cell:
        raise ConfigError(f"{folder} holds a training with other settings (see its config.yaml). Choose another --out.")
    return read_result(folder)


def _with_earlier_seeds(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with the seeds that the folder has already, so that the report shows them all."""
    earlier = read_recipe(folder)
    seeds = [*(earlier.seeds if earlier else []), *recipe.seeds]
    return recipe.model_copy(update={"seeds": list(dict.fromkeys(seeds))})
