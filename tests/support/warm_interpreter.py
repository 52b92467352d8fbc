"""Programs run in processes of their own without the seconds that each would need to import torch.

A server process imports some packages and then forks for every program. A program starts with those packages loaded
and with nothing that another program did.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


@dataclass(frozen=True)
class Program:
    """A script and what it finds when it starts.

    Args:
        script: the file to run as ``__main__``.
        folder: the folder it runs in.
        path: folders before all others on the import path.
        environment: variables to set.
        filters: warning filters as ``action:message``; later ones come first. Without any, warnings are errors.
        seconds: the program is ended after so many.
    """

    script: str
    folder: str
    path: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    filters: Sequence[str] = ()
    seconds: int = 240


class WarmInterpreter:
    """The client: starts a server that has imported ``packages``, and hands programs to it."""

    def __init__(self, *packages: str) -> None:
        self._folder = TemporaryDirectory()
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        variables = {**os.environ, **threads, "MPLBACKEND": "agg", "MPLCONFIGDIR": self._folder.name}
        command = [sys.executable, "-W", "error", __file__, self._folder.name, *packages]
        self._server = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run(self, program: Program) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asdict(program)) + "\n")
        code = self._server.stdout.readline()
        assert code, "the server of the warm interpreter has ended"
        out, err = ((Path(self._folder.name) / name).read_text(encoding="utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess([program.script], int(code), out, err)

    def close(self) -> None:
        self._server.communicate(timeout=30)
        self._folder.cleanup()


def serve(output: Path, packages: Sequence[str]) -> None:
    """Answer each program, a line of JSON, with the line of its exit code."""
    for package in packages:
        importlib.import_module(package)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(output, **json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(output: Path, script: str, **settings: Any) -> None:
    """Turn this process into one that was started with the script; never returns."""
    code = 1
    try:
        _prepare(output, script, **settings)
        runpy.run_path(script, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _prepare(
    output: Path,
    script: str,
    folder: str,
    path: list[str],
    environment: dict[str, str],
    filters: list[str],
    seconds: int,
) -> None:
    for number, name in ((0, os.devnull), (1, output / "out"), (2, output / "err")):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    signal.alarm(seconds)
    os.chdir(folder)
    os.environ.update(environment)
    sys.argv = [script]
    sys.path[0] = str(Path(script).parent)
    sys.path[:0] = path
    for text in filters:
        action, _, message = text.partition(":")
        warnings.filterwarnings(action, message)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:])
