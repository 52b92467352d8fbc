"""Recipes, the engine that trains any task, grids of cells, and run folders.

Names load when first used, since the engine imports Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolvent._core.lazy import attach

if TYPE_CHECKING:
    from evolvent.experiments.catalogue import load_recipe, recipe_names, register_recipes
    from evolvent.experiments.engine import Resources
    from evolvent.experiments.freed_memory import keep_freed_memory
    from evolvent.experiments.grid import run_folder, run_grid
    from evolvent.experiments.observer import Observer, TrainingProgress
    from evolvent.experiments.own_training import TrainedRun, train
    from evolvent.experiments.recipe import Cell, Recipe, StudyRecipe
    from evolvent.experiments.record import Record, Result, read_record
    from evolvent.experiments.trained import TrainedCell, evaluate_run, load_trained

_NAMES = {
    "catalogue": ("load_recipe", "recipe_names", "register_recipes"),
    "engine": ("Resources",),
    "freed_memory": ("keep_freed_memory",),
    "grid": ("run_folder", "run_grid"),
    "observer": ("Observer", "TrainingProgress"),
    "own_training": ("TrainedRun", "train"),
    "recipe": ("Cell", "Recipe", "StudyRecipe"),
    "record": ("Record", "Result", "read_record"),
    "trained": ("TrainedCell", "evaluate_run", "load_trained"),
}

__all__ = [
    "Cell",
    "Observer",
    "Recipe",
    "Record",
    "Resources",
    "Result",
    "StudyRecipe",
    "TrainedCell",
    "TrainedRun",
    "TrainingProgress",
    "evaluate_run",
    "keep_freed_memory",
    "load_recipe",
    "load_trained",
    "read_record",
    "recipe_names",
    "register_recipes",
    "run_folder",
    "run_grid",
    "train",
]

__getattr__, __dir__ = attach(__name__, (), {f"{__name__}.{home}": names for home, names in _NAMES.items()})
