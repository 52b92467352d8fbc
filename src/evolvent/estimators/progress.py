"""A line on the terminal for work that takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Self

_SILENT_SECONDS = 2.0
_SECONDS_BETWEEN_LINES = 10.0


class ProgressLine:
    """Shows which part of the work is being done and how far: a bar on a terminal, now and then a line in a log.

    Args:
        title: what is done.
        shown: whether to show anything; by default if the error stream is a terminal.

    >>> with ProgressLine("counting", shown=False) as progress:
    ...     progress.stage("first half")(0.5)
    """

    def __init__(self, title: str, shown: bool | None = None) -> None:
        self.title = title
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._bar: Any = None
        self._console: Any = None
        self._begin = self._last = 0.0

    def __enter__(self) -> Self:
        self._begin = self._last = time.monotonic()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def stage(self, name: str) -> Callable[[float], None]:
        """Begin a part of the work; call the result with the share of it that is done."""
        return lambda share: self._tell(name, share)

    def _tell(self, name: str, share: float) -> None:
        now = time.monotonic()
        if not self.shown or now - self._begin < _SILENT_SECONDS:
            return
        console = self._console = self._console or self._start()
        text = f"{self.title}: {name}"
        if self._bar is not None:
            self._bar.update(0, description=text, completed=share)
        elif now - self._last >= _SECONDS_BETWEEN_LINES or self._last == self._begin:
            self._last = now
            console.print(f"{text}, {share:.0%}", soft_wrap=True)

    def _start(self) -> Any:
        """The console, with a bar if it is a terminal."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, highlight=False)
        if console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
            self._bar = Progress(*columns, console=console, transient=True)
            self._bar.add_task(self.title, total=1.0)
            self._bar.start()
        return console
