"""Recipes by name or file, with settings laid over them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from evolvent._core import seals
from evolvent._core.errors import ConfigError, EvolventError, shortened
from evolvent._core.registry import Registry
from evolvent._core.yaml_text import parse_yaml
from evolvent.experiments.recipe import Recipe, StudyRecipe, assign
from evolvent.experiments.starting import with_start
from evolvent.experiments.studies import find_study
from evolvent.tasks.own_data import refuse_two_origins, with_full_paths

RECIPES: Registry[Traversable] = Registry("recipe", "`evolvent recipes` lists all of them.")


def register_recipes(folder: Traversable) -> None:
    """Make the recipes of a folder known by their names: every ``.yaml`` file in it.

    Args:
        folder: for example ``importlib.resources.files("my_package") / "recipes"``.
    """
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".yaml"):
            RECIPES.add(entry.name.removesuffix(".yaml"), entry)


register_recipes(files("evolvent.experiments") / "recipes")


def recipe_names() -> list[str]:
    """Names of all recipes: those that ship with the library, and those of installed extensions."""
    return RECIPES.names()


def load_recipe(name_or_file: str, settings: Sequence[str] = (), seed: int | None = None) -> Recipe | StudyRecipe:
    """A recipe with ``key=value`` settings laid over it; one that names a ``study`` is a study's.

    Args:
        name_or_file: one of :func:`recipe_names`, or a YAML file.
        settings: for example ``["optimizer.lr=0.05", "seeds=[0, 1]"]``; values are YAML.
        seed: shorthand for one seed.

    >>> load_recipe("demo", ["training.epochs=3"]).cells()[0].training.epochs
    3
    """
    if not isinstance(name_or_file, (str, Path)) or isinstance(settings, str) or not hasattr(settings, "__iter__"):
        raise ConfigError(
            f"a recipe is a name or a YAML file, with a list of settings, got {shortened(repr(name_or_file))} "
            f"and {shortened(repr(settings))}."
        )
    values = with_settings(recipe_values(str(name_or_file)), settings)
    return complete_recipe(values, f"recipe {name_or_file!r}", seed)


def complete_recipe(values: dict[str, Any], source: str, seed: int | None = None) -> Recipe | StudyRecipe:
    """The checked recipe that values describe; ``source`` is where they come from."""
    values = _with_full_paths(with_start(values))
    if seed is not None:
        values["seeds"] = [seed]
    if "study" in values:
        study = StudyRecipe.read(values, source)
        find_study(study.study).settings.read(study.settings, source, "settings")
        return study
    recipe = Recipe.read(values, source)
    recipe.cells()
    return recipe


def erased_differences(name_or_file: str, settings: Sequence[str]) -> list[str]:
    """One line for each setting in which the variants of a recipe differ, until ``settings`` make them the same."""
    try:
        before, now = load_recipe(name_or_file), load_recipe(name_or_file, settings)
    except EvolventError:  # a recipe that cannot be run as it stands, such as one that starts from another run
        return []
    if not isinstance(before, Recipe) or not isinstance(now, Recipe) or before.variants.keys() != now.variants.keys():
        return []
    lines = []
    for key in dict.fromkeys(setting.partition("=")[0].strip() for setting in settings):
        path = _spelt_out(key, "")[0]
        old, new = ([_at(cell.model_dump(mode="json"), path) for cell in one.cells()] for one in (before, now))
        if _distinct(old) > 1 and _distinct(new) == 1:
            lines.append(f"the variants of {before.name} differ in {path}, and --set {key} makes them the same in it.")
    return lines


def _at(values: Any, path: str) -> Any:
    for step in path.split("."):
        values = values.get(step) if isinstance(values, dict) else None
    return values


def _distinct(values: list[Any]) -> int:
    return len({json.dumps(value, sort_keys=True, default=str) for value in values})


def with_settings(values: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """What a recipe says, with ``key=value`` settings laid over it; values are YAML.

    >>> with_settings({"data": {"points": 400}}, ["data.points=1000"])
    {'data': {'points': 1000}}
    """
    pairs = [_pair(str(setting)) for setting in settings]
    refuse_two_origins(dict(pairs))
    for key, value in pairs:
        values = set_value(values, key, value)
    return values


def _pair(setting: str) -> tuple[str, Any]:
    """Key and value of ``key=value``."""
    key, equals, text = setting.partition("=")
    if not equals:
        raise ConfigError(f"--set takes key=value such as optimizer.lr=0.05, got {shortened(repr(setting))}.")
    if not text.strip():
        raise ConfigError(
            f"--set {shortened(key)}= has no value. Write {shortened(key)}=null for the default, or leave it out."
        )
    return _spelt_out(key.strip(), parse_yaml(text, f"--set {shortened(repr(setting))}"))


def _with_full_paths(values: dict[str, Any]) -> dict[str, Any]:
    """A recipe's values whose own data are named by absolute paths, in its variants too."""
    variants = values.get("variants")
    if isinstance(variants, dict):
        placed = {
            name: {**changes, "data": with_full_paths(changes["data"])}
            if isinstance(changes, dict) and "data" in changes
            else changes
            for name, changes in variants.items()
        }
        values = {**values, "variants": placed}
    return {**values, "data": with_full_paths(values["data"])} if "data" in values else values


def _spelt_out(key: str, value: Any) -> tuple[str, Any]:
    """A setting with its shorthand written out: ``from=RUN`` and ``data=mnist``."""
    if key == "from":
        return "model.start", value
    return ("data.name", value) if key == "data" and isinstance(value, str) else (key, value)


def set_value(values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A recipe's values with one setting changed, which has the last word: it also replaces what variants say of it."""
    values = assign(values, key, value)
    section, variants = key.partition(".")[0], values.get("variants")
    if section == "variants" or not isinstance(variants, dict):
        return values
    touched = {
        name: assign(changes, key, value) if isinstance(changes, dict) and section in changes else changes
        for name, changes in variants.items()
    }
    return {**values, "variants": touched}


def recipe_values(name_or_file: str) -> dict[str, Any]:
    """What a recipe says, as it was written."""
    path = Path(name_or_file)
    looks_like_file = path.suffix in (".yaml", ".yml")
    if looks_like_file and not path.is_file():
        raise ConfigError(
            f"there is no recipe file {name_or_file!r}; `evolvent recipes` lists recipes that are known by name."
        )
    found = path if looks_like_file else RECIPES.get(name_or_file)
    try:
        text = found.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the recipe {shortened(name_or_file)} cannot be read: {shortened(str(error))}.") from None
    values = parse_yaml(text, f"recipe {shortened(repr(name_or_file))}")
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ConfigError(f"recipe {shortened(repr(name_or_file))} is not a mapping of names to values.")
    values.pop(seals.KEY, None)  # of a run's recipe.yaml, which may have been changed since
    return {"name": path.stem, **values}
