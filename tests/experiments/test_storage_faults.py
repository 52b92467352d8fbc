"""Places that cannot be written, or are gone: one line each, nothing half written, and a run that can go on."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from evolvent import cli
from evolvent._core.errors import StorageError
from evolvent._core.files import write_text
from evolvent._core.lock import exclusive
from evolvent.experiments import training
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.record import cell_folders, is_finished, read_cell


class Deletes(Observer):
    """Takes the run folder away during the second epoch."""

    interval = 0.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cell_progresses(self, cell, progress):
        if progress.epoch == 2 and self.folder.exists():
            shutil.rmtree(self.folder)


def test_a_folder_that_is_deleted_in_mid_run_is_not_made_anew_in_parts(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_WRITE_SECONDS", 0.0)
    folder = tmp_path / "run"
    with pytest.raises(StorageError, match="was deleted or moved while"):
        run_grid(tiny(training={"epochs": 3}), folder, observer=Deletes(folder))
    assert not folder.exists()
    run_grid(tiny(training={"epochs": 3}), folder, resume=True)
    assert is_finished(folder)


def test_a_file_in_the_place_of_the_run_folder(tiny, tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(StorageError, match="is a file"):
        run_grid(tiny(), tmp_path / "run")
    with pytest.raises(StorageError, match="is a file"):
        run_grid(tiny(), tmp_path / "run/below")
    assert (tmp_path / "run").read_text() == "mine"


@pytest.fixture
def sealed_off(tmp_path, monkeypatch):
    """A folder that belongs to somebody else, also for the superuser, whom permissions do not stop."""
    real_stat, real_mkdir, folder = os.stat, os.mkdir, tmp_path / "theirs"

    def refuse(real):
        def call(path, *arguments, **options):
            if str(path).startswith(str(folder)):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *arguments, **options)

        return call

    monkeypatch.setattr(os, "stat", refuse(real_stat))
    monkeypatch.setattr(os, "mkdir", refuse(real_mkdir))
    return folder


def test_a_folder_that_may_not_be_looked_into(sealed_off, tiny):
    for look in (read_cell, cell_folders, lambda folder: run_grid(tiny(), folder)):
        with pytest.raises(StorageError, match="Permission denied"):
            look(sealed_off)


def test_a_folder_that_may_not_be_written(sealed_off):
    with pytest.raises(StorageError, match=r"no run can be written to .*Permission denied"), exclusive(sealed_off):
        pass
    with pytest.raises(StorageError, match="no permission to write"):
        write_text(sealed_off / "report.html", "")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a file system that takes no files")
def test_a_report_into_a_place_that_takes_no_files():
    with pytest.raises(StorageError, match=r"cannot write /proc/report.html: .*no report.html was written"):
        write_text("/proc/report.html", "")


def test_any_other_fault_of_the_system_is_one_line(monkeypatch, capsys):
    def fail() -> None:
        raise OSError(5, "Input/output error", "/data/mnist.npz")

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(sys, "argv", ["evolvent", "data", "check", "mnist"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == "error: /data/mnist.npz: Input/output error.\n"
