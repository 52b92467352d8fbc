"""How much memory there is, and what is refused because it would take more."""

from __future__ import annotations

import os

from evolvent._core.errors import ConfigError

_UNKNOWN = 64 << 30  # bytes, where the system does not say


def physical_memory() -> float:
    """Bytes of the machine's memory."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows
        return float(_UNKNOWN)


def check_fits(numbers: float, what: str) -> None:
    """Refuse tensors of so many single-precision numbers if they do not fit into the machine's memory."""
    needed, there = 4.0 * numbers, physical_memory()
    if needed > there:
        raise ConfigError(f"{what} would take {needed:.1e} bytes; this machine has {there:.1e}. Choose a smaller one.")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is the system's or PyTorch's refusal to give more memory."""
    signs = ("can't allocate memory", "not enough memory", "out of memory", "invalid buffer size", "unable to allocate")
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in signs)
