"""Packages that only some features need, imported when they are used."""

from __future__ import annotations

import importlib
from types import ModuleType

from evolvent._core.errors import ConfigError


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """A module of an optional package.

    Args:
        module: its full name.
        extra: the extra of Evolvent that brings it.
        purpose: what it is needed for, in the plural.

    Raises:
        ConfigError: if the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ConfigError(f"{purpose} need {package}. Install it with `pip install 'evolvent[{extra}]'`.") from None
