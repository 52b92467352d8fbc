"""Base of all configuration: declared fields, checked types; an unknown key is answered with the nearest known one."""

from __future__ import annotations

from types import UnionType
from typing import Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from evolvent._core.checks import told
from evolvent._core.errors import ConfigError, UnknownNameError, shortened


class Config(BaseModel):
    """A frozen pydantic model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @classmethod
    def read(cls, values: dict[str, Any], source: str, at: str = "") -> Self:
        """Validate ``values``; the first fault becomes one line that names ``source`` and the key.

        Args:
            values: what to validate.
            source: where it was written.
            at: the key under which it stands there, if it is a part of something larger.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise _first_fault(cls, error, source, [at] if at else []) from None


def _first_fault(model: type[BaseModel], error: ValidationError, source: str, above: list[str]) -> Exception:
    faults = error.errors()
    fault = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])  # a misspelt key also seems missing
    where = ".".join([*above, *(str(part) for part in fault["loc"])])
    if fault["type"] == "extra_forbidden":
        path = [str(part) for part in fault["loc"][:-1]]
        known = _fields(model, path)
        advice = f"Known here: {_listed(sorted(known))}."
        names = [".".join([*above, *path, key]) for key in known]
        return UnknownNameError(f"key in {source}", where, names, advice)
    if fault["type"] == "missing":
        return ConfigError(f"{source}: the key {where!r} is missing.")
    message = shortened(fault["msg"].removeprefix("Value error, "), 150)
    if fault["type"] == "value_error":  # a check of ours, whose message says what was given
        return ConfigError(f"{source}: {where}: {message}.")
    return ConfigError(f"{source}: {where}: {message.lower()}, got {told(fault['input'])}.")


def _listed(names: list[str], width: int = 120) -> str:
    """The names, up to a width; the number of those left out follows."""
    shown = names
    while len(", ".join(shown)) > width:
        shown = shown[:-1]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(shown) < len(names) else "")


def _fields(model: type[BaseModel], path: list[str]) -> list[str]:
    """Names of the fields at a path of nested configuration models."""
    annotation: Any = model
    for step in path:
        nested = _nested_models(annotation)
        if not nested:
            return []
        if get_origin(annotation) in (None, Union, UnionType):
            field = nested[0].model_fields.get(step)
            annotation = field.annotation if field else None
        else:  # the step is an index into a list or a key of a mapping
            annotation = nested[0]
    nested = _nested_models(annotation)
    return list(nested[0].model_fields) if nested else []


def _nested_models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _nested_models(argument)]
