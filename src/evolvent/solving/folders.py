"""Which training of a run folder is the solution, and what is kept beside its network."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from evolvent._core.errors import ConfigError, ModelFileError
from evolvent._core.seals import read_sealed, why_unfit
from evolvent.experiments.grid import cell_folders_of
from evolvent.experiments.recipe import Cell, Recipe
from evolvent.experiments.record import cell_folders, read_recipe
from evolvent.tasks.pde import SOLUTION
from evolvent.tasks.pde.ansatz import Ansatz


def cells_of(folder: Path) -> list[tuple[Cell, Path]]:
    """The trainings of a run of one variant, the solution first, with their folders."""
    recipe = read_recipe(folder)
    if not isinstance(recipe, Recipe):
        raise ConfigError(f"{folder} is not a run folder of trainings: it has no recipe.yaml that describes one.")
    cells = recipe.cells()
    if len({cell.variant for cell in cells}) > 1:
        names = ", ".join(path.name for path in cell_folders(folder)[:3])
        raise ConfigError(f"{folder} holds several trainings. Give one of those below cells/: {names}, ...")
    return [(cell, cell_folders_of(cells, folder)[cell.label]) for cell in cells]


def main_cell(folder: Path) -> Path:
    """The folder of the training that is the solution; its own if it holds one alone."""
    return folder if not (folder / "recipe.yaml").is_file() else cells_of(folder)[0][1]


def read_kept(folder: Path) -> dict[str, Any]:
    """What says how a saved network is a solution."""
    path = folder / SOLUTION
    try:
        found = read_sealed(path)
        ansatz = Ansatz(**{field.name: found[field.name] for field in fields(Ansatz)})
        kept = {key: found[key] for key in ("problem", "options", "factors")}
        return {"ansatz": ansatz, "domain": found.get("domain"), "unknowns": found.get("unknowns"), **kept}
    except (OSError, ValueError, KeyError, TypeError) as error:
        lack = "does not say how the network is a solution"
        raise ModelFileError(why_unfit(path, error, lack, "solve again")) from None
