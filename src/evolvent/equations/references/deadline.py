"""References that may be given up when they take too long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from evolvent._core.errors import EvolventError

_END: ContextVar[float | None] = ContextVar("end of the time for references", default=None)


class ReferenceTimeError(EvolventError):
    """A reference took longer than it was given."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Inside the block, a reference that is still being computed after so many seconds is given up.

    Raises:
        ReferenceTimeError: if that happened.
    """
    before = _END.set(time.perf_counter() + seconds)
    try:
        yield
    finally:
        _END.reset(before)


def check_deadline() -> None:
    """Called between the steps of a computation."""
    end = _END.get()
    if end is not None and time.perf_counter() > end:
        raise ReferenceTimeError("the reference takes longer than the time it was given. Give it more, or none.")
