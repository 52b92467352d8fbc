"""Small kernels in C++, compiled where they run and kept; without a compiler callers do without them."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from evolvent._core.files import cache_folder

_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-fopenmp")


@cache
def native_library(source: Path) -> ctypes.CDLL | None:
    """The functions of a C++ file, or None if they cannot be compiled here.

    The first call compiles, which takes about two seconds and is said on a terminal; the result is kept in the user's
    cache for as long as source, compiler and processor stay the same. ``EVOLVENT_KERNELS=eager`` in the environment
    does without.
    """
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
    if compiler is None or os.environ.get("EVOLVENT_KERNELS") == "eager":
        return None
    try:
        folder = cache_folder() / "kernels"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = folder / f"{source.stem}-{_fingerprint(source, compiler)}.so"
        if not kept.is_file():
            _compile(source, compiler, kept)
        return ctypes.CDLL(str(kept))
    except (OSError, subprocess.SubprocessError):
        return None


def _fingerprint(source: Path, compiler: str) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=20).stdout
    digest = hashlib.sha256(source.read_bytes() + version + " ".join(_FLAGS).encode() + _processor())
    return digest.hexdigest()[:16]


def _processor() -> bytes:
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(sorted({line for line in lines if line.startswith((b"model name", b"flags", b"Features"))}))


def _compile(source: Path, compiler: str, target: Path) -> None:
    """Compile beside the target and move it there whole.

    OpenMP is not linked: torch has loaded its own, and two of them in one process would fight for the cores.
    """
    if sys.stderr.isatty():
        print(f"evolvent: compiling {source.name}, once; kept in {target.parent}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        compiled, linked = Path(folder) / "kernel.o", Path(folder) / "kernel.so"
        for arguments in (*_FLAGS, "-c", source, "-o", compiled), ("-shared", compiled, "-o", linked):
            subprocess.run([compiler, *map(str, arguments)], capture_output=True, check=True, timeout=120)
        os.replace(linked, target)
