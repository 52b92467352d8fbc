"""How a recipe that was changed departs from the one that it goes by: settings, data, and what is left out for that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from evolvent._core.errors import EvolventError
from evolvent.experiments.catalogue import erased_differences, load_recipe, recipe_names, recipe_values
from evolvent.experiments.recipe import Recipe, differences, leaves
from evolvent.tasks.own_data import ORIGINS, OWN

_LISTED = 8  # settings that are named one by one


def departures(recipe: Recipe) -> dict[str, tuple[Any, Any]]:
    """Settings that differ from those of the shipped recipe of this name, by their dotted keys; before and now.

    A path of the user's own data departs from nothing where the recipe asks for one.
    """
    shipped = _shipped(recipe)
    if not shipped:
        return {}
    written = dict(leaves(recipe_values(recipe.name)))  # where paths are not yet absolute
    found = {}
    for key, (before, now) in differences(shipped.given, recipe.given).items():
        if not _is_path(key):
            found[key] = before, now
        elif before is None or now is None:
            found[key] = written.get(key), now
    return found


def _is_path(key: str) -> bool:
    *_, section, last = ["", *key.split(".")]
    return section == "data" and last in OWN


def departure_sentence(recipe: Recipe) -> str:
    """One sentence on the settings that depart from the shipped recipe; empty if there are none."""
    return _sentence(recipe.name, departures(recipe))


def noting_changes(recipe: Recipe, name_or_file: str, settings: Sequence[str]) -> Recipe:
    """The recipe with what readers of its report must know of ``settings``, which were laid over it.

    Departures from a shipped recipe are left out, since they are found again by its name.
    """
    lines = erased_differences(name_or_file, settings)
    if recipe.name not in recipe_names() and (before := _loaded(name_or_file)):
        lines.append(_sentence(recipe.name, differences(before.given, recipe.given)))
    known = dict.fromkeys([*recipe.cautions, *filter(None, lines)])
    return recipe.model_copy(update={"cautions": list(known)})


def other_data(recipe: Recipe) -> list[str]:
    """What the data of the shipped recipe are called, if this one is on other data; else empty."""
    shipped = _shipped(recipe)
    if not shipped:
        return []
    own, now = _origins(shipped), _origins(recipe)
    if now <= own or any(key in OWN for key, _ in own):  # a recipe for the user's own files has no data of its own
        return []
    return list(dict.fromkeys(cell.data_name for cell in shipped.cells()))


def title_on(recipe: Recipe, data: Iterable[str]) -> str:
    """The recipe's title, and the data if they are not the recipe's own."""
    return f"{recipe.title} (here on {', '.join(dict.fromkeys(data))})" if other_data(recipe) else recipe.title


def question_of(recipe: Recipe) -> str:
    """The recipe's question, marked as such if it was asked of other data."""
    if not (data := other_data(recipe)):
        return recipe.question
    return f"The recipe {recipe.name} asks this of {', '.join(data)}, not of the data here: {recipe.question}"


def published_sentence(recipe: Recipe) -> str:
    """One sentence if published figures are left out, since they are of other data; else empty."""
    data = other_data(recipe)
    if not data or not recipe.published:
        return ""
    return f"The published figures of the recipe {recipe.name} belong to {', '.join(data)}, so they are left out here."


def _shipped(recipe: Recipe) -> Recipe | None:
    return _loaded(recipe.name) if recipe.name in recipe_names() else None


def _loaded(name_or_file: str) -> Recipe | None:
    try:
        found = load_recipe(name_or_file)
    except EvolventError:  # one that cannot be run as it stands, such as one that starts from another run
        return None
    return found if isinstance(found, Recipe) else None


def _origins(recipe: Recipe) -> set[tuple[str, Any]]:
    found = ((key, getattr(cell.data, key, None)) for cell in recipe.cells() for key in ORIGINS)
    return {(key, value) for key, value in found if value is not None}


def _sentence(name: str, found: dict[str, tuple[Any, Any]]) -> str:
    if not found:
        return ""
    told = [f"{key} {_told(old)} → {_told(new)}" for key, (old, new) in list(found.items())[:_LISTED]]
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"Settings that depart from the recipe {name}: {', '.join(told)}{more}."


def _told(value: Any) -> str:
    text = "default" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
