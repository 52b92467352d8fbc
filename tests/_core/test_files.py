import errno
import fcntl
import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from evolvent._core.errors import StorageError
from evolvent._core.files import atomic_path, draft_path, remove_drafts, sha256, write_bytes, write_json, write_text


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


def test_pipes_are_written_to_and_not_replaced(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join()
    assert read == ["through"]
    assert pipe.is_fifo()
    assert others(pipe) == []


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
    (draft,) = others(target)
    assert remove_drafts(target.parent.parent) == 1
    assert others(target) == []
    assert target.read_text() == "earlier"
    assert draft.endswith(".draft")


def test_only_drafts_are_removed(tmp_path):
    kept = [".a.txt.0123abcd.part", "file.bin.part", ".evolvent-0123.draft", "evolvent.draft", ".lock", "model/.draft"]
    outside = draft_path(tmp_path / "outside")
    for path in [*(tmp_path / "run" / name for name in kept), outside]:
        write_text(path, "kept")
    (tmp_path / "run" / "link").symlink_to(outside.parent)
    unpacked = draft_path(tmp_path / "run") / "inner" / "member"
    write_text(unpacked, "half")
    draft_path(tmp_path / "run" / "model").write_text("half")
    assert remove_drafts(tmp_path / "run") == 2
    left = [str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert sorted(left) == sorted(kept)
    assert outside.is_file()
    assert remove_drafts(tmp_path / "absent") == 0


def test_a_system_that_opens_no_folders_is_served(target, monkeypatch):
    """As Windows: a folder cannot be opened, and only files open for writing can be flushed."""
    real_open, real_sync = os.open, os.fsync

    def open_files_only(path, flags, *rest, **options):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_open(path, flags, *rest, **options)

    def sync_writable_only(descriptor):
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return real_sync(descriptor)

    monkeypatch.setattr(os, "open", open_files_only)
    monkeypatch.setattr(os, "fsync", sync_writable_only)
    write_text(target, "later")
    assert target.read_text() == "later"


def test_a_name_as_long_as_the_system_takes_can_be_written(tmp_path):
    write_text(tmp_path / ("x" * 255), "long")
    assert (tmp_path / ("x" * 255)).read_text() == "long"


def test_json_never_holds_nan(tmp_path):
    write_json(tmp_path / "a.json", {"loss": math.nan, "bound": -math.inf, "levels": {0.1: 0.5}, "name": "Störmer"})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"loss": None, "bound": None, "levels": {"0.1": 0.5}, "name": "Störmer"}
    assert "NaN" not in text


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


def test_an_open_stream_is_written_to_where_it_is(tmp_path):
    program = "from evolvent._core.files import write_text; print('first'); write_text('/dev/stdout', 'second\\n')"
    target = tmp_path / "kept.txt"
    target.write_text("earlier\n")
    with target.open("a") as stream:
        subprocess.run([sys.executable, "-c", program + "; print('third')"], stdout=stream, check=True)
    assert target.read_text() == "earlier\nfirst\nsecond\nthird\n"
