"""Processes that share a training: what happens to the others when one of them dies."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning_fabric.strategies.launchers import subprocess_script

from evolvent._core.errors import PeerError

_PATIENCE = 5.0  # seconds for this process to notice by itself that another one is gone
_SIGNS = ("gloo", "nccl", "connection", "socket", "broken pipe", "peer")
_MESSAGE = (
    "another process of this training has died, perhaps for lack of memory. "
    "The last checkpoint is kept: add --resume to go on from it."
)


@contextmanager
def noticing_lost_peers(world_size: int) -> Iterator[None]:
    """Within the block the failure of a connection to another process is one line, not its library's traceback.

    Raises:
        PeerError: if another process has died.
    """
    try:
        yield
    except RuntimeError as error:
        if world_size == 1 or not _is_connection(error):
            raise
        raise PeerError(_MESSAGE) from None


def _is_connection(error: RuntimeError) -> bool:
    text = str(error).lower()
    return isinstance(error, torch.distributed.DistError) or any(sign in text for sign in _SIGNS)


def end_with_children() -> None:
    """Let a process that hangs, because one that it has started is gone, end with one line.

    Lightning would kill it without a message.
    """

    def end_all(self: Any) -> None:
        time.sleep(_PATIENCE)  # most often the connection has failed by then, and this process ends by itself
        for child in self._child_processes:
            child.kill()
        print(f"error: {_MESSAGE}", file=sys.stderr, flush=True)
        os._exit(1)

    subprocess_script._ChildProcessObserver._terminate_all = end_all
