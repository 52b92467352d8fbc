import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from evolvent._core.errors import ConfigError, StorageError
from evolvent._core.lock import exclusive

HOLD = """
    import sys, time
    from evolvent._core.lock import exclusive
    with exclusive(sys.argv[1]):
        print("held", flush=True)
        time.sleep(60)
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    """A process that has locked the folder."""
    command = [sys.executable, "-c", textwrap.dedent(HOLD), str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def enter(folder: Path) -> None:
    with exclusive(folder):
        pass


def test_another_process_is_kept_out_by_one_line_and_the_lock_ends_with_it(tmp_path):
    with hold(tmp_path / "run") as process:
        try:
            with pytest.raises(ConfigError, match="another process is working in") as error:
                enter(tmp_path / "run")
            assert "\n" not in str(error.value)
        finally:
            process.send_signal(signal.SIGKILL)
    enter(tmp_path / "run")


def test_a_second_lock_in_the_same_process_is_refused_and_the_first_stays(tmp_path):
    with exclusive(tmp_path):
        for _ in range(2):
            with pytest.raises(ConfigError, match="another process"):
                enter(tmp_path)
    enter(tmp_path)


def test_the_lock_ends_with_a_failing_block(tmp_path):
    with pytest.raises(RuntimeError), exclusive(tmp_path):
        raise RuntimeError("bug")
    enter(tmp_path)


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="is a file, or a part of its path is one"):
        enter(tmp_path / "file" / "run")


def test_neither_the_lock_nor_any_other_file_needs_a_module_of_one_platform():
    package = Path(sys.modules["evolvent._core.lock"].__file__ or "").parents[1]
    of_one_platform = re.compile(r"^\s*(import|from) (fcntl|grp|msvcrt|pty|pwd|resource|termios|tty|winreg)\b", re.M)
    guilty = [path for path in package.rglob("*.py") if of_one_platform.search(path.read_text(encoding="utf-8"))]
    assert guilty == []
