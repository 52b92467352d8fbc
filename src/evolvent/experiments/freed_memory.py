"""Memory that a training step frees, kept for the next one."""

from __future__ import annotations

import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # numbers of glibc's settings
_KEPT = 1 << 30  # bytes


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory instead of giving it back to the system; False where that is not done.

    glibc gives large pieces back, and the system hands them out again cleared, page by page, in every training step.
    Nothing is changed where ``MALLOC_TRIM_THRESHOLD_``, ``MALLOC_MMAP_THRESHOLD_`` or ``GLIBC_TUNABLES`` is set, or
    with other allocators and systems.
    """
    if {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"} & os.environ.keys():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # macOS, musl; Windows
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _KEPT) and mallopt(_MMAP_THRESHOLD, _KEPT))
