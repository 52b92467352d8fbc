"""Problems by name."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from evolvent._core.checks import told
from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent._core.registry import Registry
from evolvent.equations.problems.problem import Problem

Statement = Callable[..., Problem]
_MANY_DIMENSIONS = "In many dimensions there are the recipes bsde-hjb, bsde-allen-cahn and bsde-black-scholes."
PROBLEMS: Registry[Statement] = Registry("problem", f"`evolvent solve` lists all. {_MANY_DIMENSIONS}")
_GIVEN: dict[tuple[str, str], Problem] = {}


def register_problem(name: str) -> Callable[[Statement], Statement]:
    """Register a function that states a problem; its arguments are the problem's options, such as coefficients."""

    def add(statement: Statement) -> Statement:
        PROBLEMS.add(name, statement)
        return statement

    return add


def list_problems(pattern: str = "*") -> list[str]:
    """Names of all problems that match a shell pattern.

    >>> list_problems("poisson*")
    ['poisson', 'poisson-disc', 'poisson-l-shape']
    """
    return PROBLEMS.names(pattern)


def create_problem(name: str, **options: Any) -> Problem:
    """A registered problem.

    Args:
        name: one of :func:`list_problems`.
        options: the arguments of the function that states it.

    >>> create_problem("burgers", viscosity=0.1).coefficients
    {'viscosity': 0.1}
    """
    if _key(name, options) in _GIVEN:
        return _GIVEN[_key(name, options)]
    statement = PROBLEMS.get(name)
    known = inspect.signature(statement).parameters
    for option, value in options.items():
        if option not in known:
            advice = f"It takes {', '.join(known) or 'none'}."
            if option in ("d", "dim", "dimension", "dimensions"):
                advice += f" {_MANY_DIMENSIONS}"
            raise UnknownNameError(f"option of {name}", option, list(known), advice)
        _check_number(name, option, value, known[option].annotation)
    return statement(**options)


def _check_number(problem: str, option: str, value: Any, annotation: Any) -> None:
    kinds = {"float": (numbers.Real, "a number"), "int": (numbers.Integral, "a whole number")}
    kind, said = kinds.get(getattr(annotation, "__name__", annotation), (object, ""))
    if not isinstance(value, kind) or (said and isinstance(value, bool)):
        raise ConfigError(f"option {option} of {problem} must be {said}, got {told(value)}.")


@contextmanager
def given(problem: Problem, options: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Inside the block, the problem's name with these options means this very object, registered or not."""
    key = _key(problem.name, options or {})
    before = _GIVEN.get(key)
    _GIVEN[key] = problem
    try:
        yield
    finally:
        if before is None:
            del _GIVEN[key]
        else:
            _GIVEN[key] = before


def is_given(problem: Problem) -> bool:
    """Whether an object is what its name means just now, and not made from it."""
    return any(one is problem for one in _GIVEN.values())


def _key(name: str, options: Mapping[str, Any]) -> tuple[str, str]:
    return name, repr(sorted(options.items()))
