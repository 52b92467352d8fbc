"""Compiled kernels are kept between calls; without a compiler there are none."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from evolvent._core.native import native_library

SOURCE = 'extern "C" int twice(int x) { return 2 * x; }\n'


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EVOLVENT_KERNELS", raising=False)
    path = tmp_path / "twice.cpp"
    path.write_text(SOURCE)
    yield path
    native_library.cache_clear()


def kept(source: Path) -> list[Path]:
    return list((source.parent / "cache" / "kernels").iterdir())


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_a_kernel_is_compiled_once(source):
    library = native_library(source)
    assert library is not None
    assert library.twice(21) == 42
    (first,) = kept(source)
    native_library.cache_clear()
    stamp = first.stat().st_mtime_ns
    native_library(source)
    assert [path.stat().st_mtime_ns for path in kept(source)] == [stamp]


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("terminal", [True, False])
def test_compiling_is_said_once_and_only_on_a_terminal(source, terminal, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    for _ in range(2):
        native_library(source)
        native_library.cache_clear()
    assert capsys.readouterr().err.count("compiling twice.cpp") == terminal


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_a_changed_source_is_compiled_again(source):
    native_library(source)
    native_library.cache_clear()
    source.write_text(SOURCE.replace("2 *", "3 *"))
    library = native_library(source)
    assert library is not None
    assert library.twice(21) == 63
    assert len(kept(source)) == 2


def test_a_source_that_does_not_compile_is_done_without(source):
    source.write_text("this is not C++")
    assert native_library(source) is None
    assert kept(source) == []


def test_kernels_can_be_refused(source, monkeypatch):
    monkeypatch.setenv("EVOLVENT_KERNELS", "eager")
    assert native_library(source) is None


def test_without_a_compiler_there_is_no_kernel(source, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("PATH", str(source.parent))
    assert native_library(source) is None
