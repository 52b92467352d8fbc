"""Downloads from a server on loopback: whole, cut and resumed, wrong, unpacked."""

import dataclasses
import hashlib
import io
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from evolvent._core.files import draft_path
from evolvent._core.lock import exclusive
from evolvent.data import Download, describe, fetch, load
from evolvent.data.fetching import download, unpack
from evolvent.errors import ConfigError, DataError


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        content = server.files.get(self.path.lstrip("/"))
        server.ranges.append(self.headers.get("Range"))
        if content is None:
            self.send_error(404)
            return
        start = 0
        if server.resumes and (wanted := self.headers.get("Range")):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) if server.cut is None else server.cut
        server.cut = None
        self.wfile.write(content[start:end])

    def log_message(self, format, *args):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.files, server.ranges, server.cut, server.resumes = {}, [], None, True
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def content(rng):
    return rng.bytes(700_000)


def _what(server, content, **options):
    server.files["file.bin"] = content
    return Download(f"{server.url}/file.bin", f"sha256:{hashlib.sha256(content).hexdigest()}", len(content), **options)


def test_a_download_is_whole_and_reported(tmp_path, server, content):
    seen = []
    path = download(_what(server, content), tmp_path, lambda *step: seen.append(step))
    assert path.read_bytes() == content
    assert [item.name for item in tmp_path.iterdir()] == ["file.bin"]
    assert seen[-1] == ("file.bin", len(content), len(content))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_a_file_that_is_there_is_kept(tmp_path, server, content):
    what = _what(server, content)
    download(what, tmp_path)
    download(what, tmp_path)
    assert len(server.ranges) == 1


@pytest.mark.parametrize("resumes", [True, False])
def test_a_cut_connection_is_resumed(tmp_path, server, content, craft, resumes):
    what, server.cut, server.resumes = _what(server, content), 300_000, resumes
    with pytest.raises(DataError, match="300,000 bytes are kept") as error:
        download(what, tmp_path)
    craft.one_line(error)
    assert [item.name for item in tmp_path.iterdir()] == ["file.bin.part"]
    assert download(what, tmp_path).read_bytes() == content
    assert server.ranges == [None, "bytes=300000-"]


def test_a_part_that_is_too_long_is_fetched_anew(tmp_path, server, content):
    what = _what(server, content)
    (tmp_path / "file.bin.part").write_bytes(content + b"more")
    assert download(what, tmp_path).read_bytes() == content


def test_a_wrong_checksum_is_refused_and_discarded(tmp_path, server, content, craft):
    what = _what(server, content)
    server.files["file.bin"] = content[:-1] + b"!"
    with pytest.raises(DataError, match="is not the published file and was discarded: sha256") as error:
        download(what, tmp_path)
    craft.one_line(error)
    assert list(tmp_path.iterdir()) == []


def test_no_file_and_no_server(tmp_path, server, craft):
    for url in (f"{server.url}/none", "http://127.0.0.1:9/none"):
        with pytest.raises(DataError, match="could not be fetched") as error:
            download(Download(url, "md5:0"), tmp_path)
        craft.one_line(error)


@pytest.fixture
def served_entry(server, monkeypatch):
    """Let a catalogue entry have its home on the loopback server."""

    def serve(name, files, **options):
        server.files.update(files)
        downloads = tuple(
            Download(f"{server.url}/{file}", f"md5:{hashlib.md5(body).hexdigest()}", **options)
            for file, body in files.items()
        )
        entry = dataclasses.replace(describe(name), downloads=downloads)
        monkeypatch.setattr("evolvent.data.fetching.describe", lambda asked: entry)

    return serve


def test_fetch_then_load(tmp_path, rng, craft, server, served_entry):
    arrays = craft.idx_set(tmp_path / "home", rng)
    served_entry("mnist", {path.name: path.read_bytes() for path in (tmp_path / "home").iterdir()})
    folder = fetch("mnist")
    assert folder == tmp_path / "cache" / "mnist"
    np.testing.assert_array_equal(load("mnist").test.images[:, 0], arrays[2])
    requests = len(server.ranges)
    assert fetch("mnist") == folder
    assert len(server.ranges) == requests


def _tar(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return buffer.getvalue()


def test_fetch_unpacks_and_skips(tmp_path, rng, server, served_entry):
    images = rng.integers(0, 256, (10, 3, 96, 96), dtype=np.uint8).tobytes()
    labels = bytes(range(1, 11))
    files = {"train_X.bin": images, "train_y.bin": labels, "test_X.bin": images, "test_y.bin": labels}
    files["unlabeled_X.bin"] = b"not wanted"
    archive = _tar({f"stl10_binary/{name}": body for name, body in files.items()})
    served_entry("stl10", {"stl10.tar.gz": archive}, unpack=True, skip=("unlabeled_X.bin",))
    folder = fetch("stl10", tmp_path / "mine")
    assert sorted(item.name for item in folder.iterdir()) == [".lock", "stl10_binary"]
    assert not (folder / "stl10_binary" / "unlabeled_X.bin").exists()
    assert len(load("stl10", tmp_path / "mine").train) == 10


def test_an_archive_of_something_else_is_said(tmp_path, server, served_entry):
    served_entry("stl10", {"stl10.tar.gz": _tar({"readme": b"hello"})}, unpack=True)
    with pytest.raises(DataError, match="is not in it"):
        fetch("stl10")


def test_sets_that_are_not_for_download():
    with pytest.raises(DataError, match="digits cannot be downloaded"):
        fetch("digits")


def test_unpack_replaces_and_refuses_to_leave_the_folder(tmp_path, craft):
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("inner/file", "new")
    (tmp_path / "out" / "inner").mkdir(parents=True)
    (tmp_path / "out" / "inner" / "old").write_text("old")
    unpack(archive, tmp_path / "out")
    assert [item.name for item in (tmp_path / "out" / "inner").iterdir()] == ["file"]
    archive.write_bytes(_tar({"../escaped": b"x"}))
    with pytest.raises(DataError) as error:
        unpack(archive, tmp_path / "out")
    craft.one_line(error)
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize("body", [b"no archive", b""])
def test_what_is_no_archive(tmp_path, body):
    path = tmp_path / "a.zip"
    path.write_bytes(body)
    with pytest.raises(DataError, match="neither a tar nor a zip"):
        unpack(path, tmp_path / "out")


def test_fetch_removes_what_a_killed_one_left_and_keeps_others_out(tmp_path, server, served_entry):
    served_entry("stl10", {"stl10.tar.gz": _tar({"readme": b"hello"})}, unpack=True)
    half = draft_path(tmp_path / "stl10") / "stl10_binary"
    half.mkdir(parents=True)
    with exclusive(tmp_path / "stl10"), pytest.raises(ConfigError, match="another process"):
        fetch("stl10", tmp_path)
    assert half.exists()
    with pytest.raises(DataError, match="is not in it"):
        fetch("stl10", tmp_path)
    assert not half.parent.exists()
