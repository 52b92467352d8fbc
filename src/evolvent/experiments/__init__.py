"""Recipes, the engine that trains any task, grids of cells, and run folders.

Names load when first used, since the engine imports Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolvent._core.lazy import attach

if TYPE_CHECKING:
    from evolvent.experiments.catalogue import load_recipe, recipe_names, register_recipes
    from evolvent.experiments.engine import Resources, evaluate_run
    from evolvent.experiments.freed_memory import keep_freed_memory
    from evolvent.experiments.grid import run_folder, run_grid
    from evolvent.experiments.observer import Observer, TrainingProgress
    from evolvent.experiments.recipe import Cell, Recipe, StudyRecipe
    from evolvent.experiments.record import Record, Result, read_record

_NAMES = {
    "catalogue": ("load_recipe", "recipe_names", "register_recipes"),
    "engine": ("Resources", "evaluate_run"),
    "freed_memory": ("keep_freed_memory",),
    "grid": ("run_folder", "run_grid"),
    "observer": ("Observer", "TrainingProgress"),
    "recipe": ("Cell", "Recipe", "StudyRecipe"),
    "record": ("Record", "Result", "read_record"),
}

__all__ = [
    "Cell",
    "Observer",
    "Recipe",
    "Record",
    "Resources",
    "Result",
    "StudyRecipe",
    "TrainingProgress",
    "evaluate_run",
    "keep_freed_memory",
    "load_recipe",
    "read_record",
    "recipe_names",
    "register_recipes",
    "run_folder",
    "run_grid",
]

__getattr__, __dir__ = attach(__name__, (), {f"{__name__}.{home}": names for home, names in _NAMES.items()})
