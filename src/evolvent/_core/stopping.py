"""Being asked to stop: Ctrl-C, SIGTERM, and the signals by which a cluster takes its machines back.

Outside of a training a signal ends the process at once, by :class:`Stopped`. A training puts it off to the end of its
step, writes a checkpoint, and stops then. A second signal is never put off.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGXCPU")
"""What SLURM, a terminal or a system that shuts down may send."""


class Stopped(BaseException):
    """A signal asked the process to stop; no error, and not caught as one.

    Attributes:
        name: of the signal.
        code: with which the process should exit, 128 and the signal's number.
        checkpoint: whether a checkpoint was written for it.
    """

    def __init__(self, number: int, checkpoint: bool = False) -> None:
        super().__init__(signal.Signals(number).name)
        self.name, self.code, self.checkpoint = signal.Signals(number).name, 128 + number, checkpoint


class _State:
    listening = False
    deferring = False
    asked = 0  # number of the signal that was put off; 0 for none


@contextmanager
def listening(names: Sequence[str] = SIGNALS) -> Iterator[None]:
    """Within the block signals of these names raise :class:`Stopped`; those that are ignored already stay so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows has two of them
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _hear)
    _State.listening, _State.deferring, _State.asked = True, False, 0
    try:
        yield
    finally:
        _State.listening = False
        for number, handler in before.items():
            signal.signal(number, handler)


def _hear(number: int, frame: object) -> None:
    if _State.deferring and not _State.asked:
        _State.asked = number
    else:
        raise Stopped(number)


@contextmanager
def putting_off() -> Iterator[None]:
    """Within the block the first signal only makes :func:`asked_to_stop` true; it is raised at the block's end."""
    _State.deferring = True
    try:
        yield
        if _State.asked:
            raise Stopped(_State.asked)
    finally:
        _State.deferring, _State.asked = False, 0


def is_listening() -> bool:
    """Whether this process can be asked to stop."""
    return _State.listening


def asked_to_stop() -> int:
    """The number of the signal that was put off; 0 for none."""
    return _State.asked
