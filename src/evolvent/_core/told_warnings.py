"""Warnings as plain text for people who did not write the program, instead of Python's lines with path and source."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def told_warnings(tell: Callable[[str], None]) -> Iterator[None]:
    """Within the block each warning is passed on as one line of text, and the same text once."""
    before, told = warnings.showwarning, set[str]()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in told:
            told.add(text)
            tell(text)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before
