"""Recipes by name or file, with settings laid over them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent.experiments.recipe import Recipe, StudyRecipe, assign
from evolvent.experiments.studies import find_study


def recipe_names() -> list[str]:
    """Names of the recipes that ship with the package."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _home().iterdir() if entry.name.endswith(".yaml"))


def load_recipe(name_or_file: str, settings: Sequence[str] = (), seed: int | None = None) -> Recipe | StudyRecipe:
    """A recipe with ``key=value`` settings laid over it; one that names a ``study`` is a study's.

    Args:
        name_or_file: one of :func:`recipe_names`, or a YAML file.
        settings: for example ``["optimizer.lr=0.05", "seeds=[0, 1]"]``; values are YAML.
        seed: shorthand for one seed.

    >>> load_recipe("demo", ["training.epochs=3"]).cells()[0].training.epochs
    3
    """
    values = _read(name_or_file)
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set takes key=value such as optimizer.lr=0.05, got {setting!r}.")
        values = _set(values, key.strip(), _parse(text, setting))
    if seed is not None:
        values["seeds"] = [seed]
    source = f"recipe {name_or_file!r}"
    if "study" in values:
        return _with_all_settings(StudyRecipe.read(values, source), source)
    recipe = Recipe.read(values, source)
    recipe.cells()
    return recipe


def _with_all_settings(recipe: StudyRecipe, source: str) -> StudyRecipe:
    """The recipe with every setting of its study, checked by the study's own model."""
    checked = find_study(recipe.study).settings.read(recipe.settings, f"settings of {source}")
    return recipe.model_copy(update={"settings": checked.model_dump(mode="json")})


def _set(values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A setting has the last word: it also replaces what variants say of the same section."""
    values = assign(values, key, value)
    section, variants = key.partition(".")[0], values.get("variants")
    if section == "variants" or not isinstance(variants, dict):
        return values
    touched = {
        name: assign(changes, key, value) if isinstance(changes, dict) and section in changes else changes
        for name, changes in variants.items()
    }
    return {**values, "variants": touched}


def _home() -> Any:
    return files("evolvent.experiments") / "recipes"


def _read(name_or_file: str) -> dict[str, Any]:
    path = Path(name_or_file)
    looks_like_file = path.suffix in (".yaml", ".yml")
    if looks_like_file and not path.is_file():
        raise ConfigError(
            f"there is no recipe file {name_or_file!r}; `evolvent recipes` lists those that ship with it."
        )
    if not looks_like_file and name_or_file not in recipe_names():
        raise UnknownNameError("recipe", name_or_file, recipe_names(), "`evolvent recipes` lists all of them.")
    text = (path if looks_like_file else _home() / f"{name_or_file}.yaml").read_text(encoding="utf-8")
    values = _parse(text, name_or_file)
    if not isinstance(values, dict):
        raise ConfigError(f"recipe {name_or_file!r} is no mapping of keys to values.")
    return {"name": path.stem, **values}


def _parse(text: str, source: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source!r} is no YAML: {str(error).splitlines()[0]}.") from None
