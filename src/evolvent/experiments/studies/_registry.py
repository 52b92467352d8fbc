"""Studies by name; a study's file is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from evolvent._core.config import Config
from evolvent._core.errors import UnknownNameError
from evolvent.tasks.findings import Findings, Tell

_STUDIES = (
    "diffresnet-figure3",
    "discretise-optimise",
    "epdo-discretisation",
    "imex-global-view",
    "layer-parallel",
    "multilevel",
    "pide-decay",
    "pide-stages",
    "pide-table4",
    "prnet-table8",
    "prnet-table9",
)


@dataclass(frozen=True)
class Study:
    """A computation and the settings it takes."""

    settings: type[Config]
    run: Callable[[Any, int, Tell], Findings]


def study_names() -> list[str]:
    """Names of all studies."""
    return list(_STUDIES)


def find_study(name: str) -> Study:
    """The study of that name.

    >>> find_study("multilevel").settings().coarsest
    2
    """
    if name not in _STUDIES:
        raise UnknownNameError("study", name, _STUDIES, f"There are {', '.join(_STUDIES)}.")
    module = import_module(f"{__package__}.{name.replace('-', '_')}")
    return Study(module.Settings, module.run)
