"""Whether a run folder holds what is asked for, before it is continued."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent._core.errors import ConfigError, shortened
from evolvent.experiments.catalogue import with_settings
from evolvent.experiments.recipe import Recipe
from evolvent.experiments.record import read_recipe

_SHOWN = 40  # characters of a value in a message


def earlier_recipe(
    folder: Path,
    problem: str,
    options: Mapping[str, Any],
    method: str,
    seed: int,
    unknown: Mapping[str, float],
    settings: Sequence[str],
) -> Recipe | None:
    """The recipe of a run of the same problem, solved in the same way; None if there is no run yet.

    Settings and unknown coefficients that are left out are those of the run. So is the budget, whatever it is now.

    Raises:
        ConfigError: if the folder holds something else; it names what.
    """
    found = read_recipe(folder)
    if found is None:
        return None
    if not isinstance(found, Recipe) or found.task.get("name") != "pde":
        raise ConfigError(f"{folder} holds a run that solves no problem. Choose another --out.")
    asked = {"problem": problem, "options": dict(options), "method": method, "seed": seed}
    held = {
        "problem": found.data.get("name"),
        "options": found.data.get("options", {}),
        "method": found.task.get("method", "pinn"),
        "seed": found.seeds[0],
    }
    if unknown:
        asked["unknown"], held["unknown"] = dict(unknown), found.task.get("unknown", {})
    for name, value in asked.items():
        if _plain(value) != _plain(held[name]):
            raise _other(folder, name, _shown(held[name]), _shown(value))
    for setting in _changing(found, settings):
        raise _other(folder, "settings", "another value", shortened(setting, _SHOWN))
    return found


def _other(folder: Path, name: str, held: str, asked: str) -> ConfigError:
    return ConfigError(
        f"{shortened(str(folder))} holds a run with another {name.removesuffix('s')}: {held} there, {asked} asked for. "
        f"Ask for the same {name} to continue it, or choose another --out."
    )


def _changing(recipe: Recipe, settings: Sequence[str]) -> Iterator[str]:
    """Settings that would make another recipe of it."""
    values = recipe.model_dump(mode="json")
    for setting in settings:
        if Recipe.read(with_settings(values, [setting]), "the plan").identity != recipe.identity:
            yield str(setting)


def _plain(value: Any) -> Any:
    """As it comes back from a file, where tuples are lists."""
    return json.loads(json.dumps(value, default=str))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(f"{name}={one}" for name, one in value.items()) or "none"
    return shortened(str(value), _SHOWN)
