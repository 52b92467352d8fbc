import errno
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from evolvent._core.errors import StorageError
from evolvent._core.files import atomic_path, sha256, write_bytes, write_text


@pytest.fixture
def target(tmp_path) -> Path:
    path = tmp_path / "folder" / "a.txt"
    write_text(path, "earlier")
    return path


def others(target: Path) -> list[str]:
    return sorted(p.name for p in target.parent.iterdir() if p != target)


def test_whole_files_replace_earlier_ones(target):
    write_text(target, "später")
    assert target.read_text(encoding="utf-8") == "später"
    write_bytes(target, b"\x00\xff")
    assert target.read_bytes() == b"\x00\xff"
    assert others(target) == []


def test_failing_block_keeps_the_earlier_file(target):
    def half() -> None:
        with atomic_path(target) as draft:
            draft.write_text("half")
            raise RuntimeError("bug")

    with pytest.raises(RuntimeError, match="bug"):
        half()
    assert target.read_text() == "earlier"
    assert others(target) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("where", ["fsync", "replace", "mkdir"])
def test_full_disk_is_a_storage_error_and_keeps_the_earlier_file(target, monkeypatch, number, where):
    def full(*_args, **_kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, where, full)
    if where == "mkdir":
        with pytest.raises(StorageError, match=r"no space left .* no b.txt was written"):
            write_text(target.parent / "new" / "b.txt", "later")
    else:
        with pytest.raises(StorageError, match=r"no space left .* earlier a.txt is intact"):
            write_text(target, "later")
    monkeypatch.undo()
    assert target.read_text() == "earlier"
    assert others(target) == []


def test_disk_that_fills_while_writing(target, monkeypatch):
    def half(path: Path, text: str, **_kwargs):
        with path.open("w") as file:
            file.write(text[: len(text) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(StorageError, match="Free some space"):
        write_text(target, "later")
    monkeypatch.undo()
    assert target.read_text() == "earlier"
    assert others(target) == []


def test_real_file_size_limit_is_a_storage_error(target):
    """The kernel refuses the write, not a stand-in."""
    program = """
        import resource, signal, sys
        from evolvent._core.errors import StorageError
        from evolvent._core.files import write_bytes
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_bytes(sys.argv[1], bytes(100_000))
        except StorageError:
            sys.exit(7)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(target)], check=False)
    assert done.returncode == 7
    assert target.read_text() == "earlier"
    assert others(target) == []


def test_process_killed_in_the_middle_leaves_the_earlier_file(target):
    program = """
        import os, signal, sys
        from evolvent._core.files import atomic_path
        with atomic_path(sys.argv[1]) as draft:
            draft.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert target.read_text() == "earlier"
    assert all(name.startswith(".a.txt.") and name.endswith(".part") for name in others(target))


def test_no_permission_is_a_storage_error(target, monkeypatch):
    def refuse(*_args):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(StorageError, match="no permission"):
        write_text(target, "later")
    assert others(target) == []


def test_path_through_a_file_or_onto_a_folder_is_a_storage_error(target):
    with pytest.raises(StorageError, match="part of its path is a file"):
        write_text(target / "b.txt", "later")
    with pytest.raises(StorageError, match="is a folder"):
        write_text(target.parent, "later")
    assert target.read_text() == "earlier"


def test_other_faults_keep_their_own_type(target):
    with pytest.raises(ConnectionError), atomic_path(target):
        raise ConnectionError("the network, not the disk")


def test_storage_error_inside_is_not_wrapped_again(target):
    with pytest.raises(StorageError, match=r"^inner$"), atomic_path(target):
        raise StorageError("inner")


def test_sha256_is_the_standard_one(target):
    assert sha256(target) == hashlib.sha256(b"earlier").hexdigest()
