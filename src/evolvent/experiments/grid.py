"""Runs a recipe cell by cell: resumable, skipping what is finished, summarised at the end."""

from __future__ import annotations

from pathlib import Path

from evolvent.data import ImageData
from evolvent.experiments.engine import Resources, advise_on_steps, check_cell, load_data, measure_cost, run_cell
from evolvent.experiments.lock import is_main_process, locked, refuse_other_run
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import Cell, Recipe
from evolvent.experiments.record import Result, is_finished, read_result, recipe_identity, write_config


def run_folder(recipe: Recipe, out: Path | None = None) -> Path:
    """Where a recipe's run lies: ``runs/<recipe>/<id>``, where the id changes with every setting."""
    return out or Path("runs") / recipe.name / recipe.identity


def cell_folder(recipe: Recipe, folder: Path, cell: Cell) -> Path:
    """A grid keeps each cell in a folder of its own; a single cell is the run itself."""
    return folder / "cells" / cell.label if len(recipe.cells()) > 1 else folder


def run_grid(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    data_folder: Path | None = None,
    resources: Resources | None = None,
    observer: Observer | None = None,
) -> dict[str, Result]:
    """Run all cells that are not finished; results by cell label.

    Raises:
        ConfigError: if the folder holds a run already and ``resume`` is not set; before anything is written.
    """
    resources, observer = resources or Resources(), observer or Observer()
    cells = recipe.cells()
    folders = {cell.label: cell_folder(recipe, folder, cell) for cell in cells}
    if is_main_process():
        refuse_other_run(recipe_identity(folder), recipe.identity, folder, resume)
    sets = _load_sets(cells, data_folder)
    variants = {cell.variant: cell for cell in cells}
    for cell in variants.values():
        check_cell(cell, sets[_set_key(cell)], resources)
    costs = {variant: measure_cost(cell, sets[_set_key(cell)]) for variant, cell in variants.items()}
    with locked(folder):
        if is_main_process():
            write_config(folder / "recipe.yaml", recipe)
        observer.grid_starts(cells, costs, "; ".join(dict.fromkeys(found.source for found in sets.values())))
        for variant, cell in variants.items() if is_main_process() else ():
            advice = advise_on_steps(cell, sets[_set_key(cell)])
            if advice:
                observer.network_advised(variant, advice)
        results = {}
        for cell in cells:
            where = folders[cell.label]
            if is_finished(where):
                result = read_result(where / "result.json")
                assert result is not None
                observer.cell_skipped(cell, where, result)
            else:
                observer.cell_starts(cell, where, (where / "checkpoints").exists())
                cost = costs[cell.variant]
                result = run_cell(cell, sets[_set_key(cell)], where, cost, resources, observer)
                observer.cell_ends(cell, where, result)
            results[cell.label] = result
    return results


def _load_sets(cells: list[Cell], folder: Path | None) -> dict[tuple[str, int], ImageData]:
    """The images of all cells; what several ask for is read once."""
    wanted = {_set_key(cell): cell.data for cell in cells}
    return {key: load_data(config, folder) for key, config in wanted.items()}


def _set_key(cell: Cell) -> tuple[str, int]:
    return cell.data.name, cell.data.reduce
