"""Cells side by side in processes of one machine: the same results, failures that stay alone, nothing left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from types import SimpleNamespace

import pytest
import torch
import yaml

from evolvent import load
from evolvent._core.errors import ConfigError
from evolvent.experiments.engine import DataShelf, Resources
from evolvent.experiments.grid import CellsFailedError, run_grid
from evolvent.experiments.jobs import Bench
from evolvent.experiments.observer import Observer
from evolvent.experiments.record import cell_folders, is_finished, read_result
from evolvent.experiments.workers import _visible_gpu

EXPLODES = {"optimizer": {"lr": 1e12}, "schedule": {"name": "constant", "warmup": 0.0}}


class Notes(Observer):
    """Remembers what it hears and checks that it hears everything in one thread."""

    def __init__(self):
        self.heard, self.reasons, self.thread = [], {}, threading.current_thread()

    def note(self, *what):
        assert threading.current_thread() is self.thread
        self.heard.append(what)

    def network_measured(self, cell, cost, advice):
        self.note("measured", cell.variant, cost.parameters)

    def cell_starts(self, cell, folder, resumed):
        self.note("starts", cell.label, resumed)

    def cell_progresses(self, cell, progress):
        self.note("progresses", cell.label, progress.step)

    def cell_ends(self, cell, folder, result):
        self.note("ends", cell.label)

    def cell_fails(self, cell, folder, reason):
        self.note("fails", cell.label)
        self.reasons[cell.label] = reason

    def of(self, kind):
        return [what[1:] for what in self.heard if what[0] == kind]


class Killer(Notes):
    """Kills the first worker when its cell is past its first checkpoint, so many times."""

    interval = 0.0  # every step is told

    def __init__(self, label, times=1):
        super().__init__()
        self.label, self.times = label, times

    def cell_progresses(self, cell, progress):
        super().cell_progresses(cell, progress)
        if cell.label == self.label and progress.step > 6 and self.times and not progress.epoch_ends:
            for child in multiprocessing.active_children():  # none while messages of a dead one are read
                if child.name == "evolvent-worker-0":
                    self.times -= 1
                    child.kill()
                    child.join()


def weights(folder):
    return {path.name: load(path / "model").state_dict() for path in cell_folders(folder) if is_finished(path)}


def assert_same_weights(one, other):
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, state in first.items():
        assert all(torch.equal(state[key], second[name][key]) for key in state), name


def test_the_weights_are_bitwise_those_of_one_process_although_a_worker_is_killed_and_cells_fail(tiny, tmp_path):
    """Four cells, two of which explode; also the figures are the same, and neither workers nor drafts are left."""
    good = {"seeds": [0, 1], "training": {"epochs": 12, "checkpoint_steps": 5}}
    in_turn = run_grid(tiny(variants={"good": {}}, **good), tmp_path / "turn")
    killer = Killer("good-seed0")
    with pytest.raises(CellsFailedError, match=r"^2 of 4 cells failed\. The first was bad-seed.: ") as caught:
        run_grid(tiny(variants={"good": {}, "bad": EXPLODES}, **good), tmp_path / "beside", workers=2, observer=killer)
    assert "\n" not in str(caught.value)
    assert killer.times == 0
    assert ("good-seed0", True) in killer.of("starts")
    assert set(killer.of("ends")) == {("good-seed0",), ("good-seed1",)}
    assert ["gradient" in killer.reasons[label] for label in ("bad-seed0", "bad-seed1")] == [True, True]
    assert_same_weights(tmp_path / "turn", tmp_path / "beside")
    for label, result in in_turn.items():
        assert read_result(tmp_path / "beside/cells" / label).figures == result.figures
    assert not multiprocessing.active_children()
    assert not list((tmp_path / "beside").rglob("*.draft"))


@pytest.mark.slow
def test_side_by_side_results_and_what_is_heard_are_in_order(tiny, tmp_path):
    recipe, notes = tiny(seeds=[0, 1, 2], training={"epochs": 1}), Notes()
    in_turn = run_grid(recipe, tmp_path / "turn")
    beside = run_grid(recipe, tmp_path / "beside", workers=2, observer=notes)
    assert list(beside) == list(in_turn)
    assert len(notes.of("measured")) == 1
    for label in in_turn:
        kinds = [what[0] for what in notes.heard if what[1] == label]
        assert (kinds[0], kinds[-1]) == ("starts", "ends")
        assert set(kinds[1:-1]) == {"progresses"}


@pytest.mark.slow
def test_a_cell_whose_process_is_killed_again_fails(tiny, tmp_path):
    killer = Killer("hamiltonian-seed0", times=2)
    recipe = tiny(training={"epochs": 4})
    with pytest.raises(CellsFailedError, match=r"^the cell failed\. .*killed twice, the last time by SIGKILL"):
        run_grid(recipe, tmp_path / "run", workers=2, observer=killer)
    assert killer.of("fails") == [("hamiltonian-seed0",)]


@pytest.mark.slow
def test_a_failure_leaves_the_other_cells_alone_and_resume_goes_on(tiny, tmp_path):
    """One explodes, one meets a bug (a folder where its metrics belong), one is trained."""
    recipe = tiny(variants={"good": {}, "bad": EXPLODES, "bug": {}}, training={"epochs": 1})
    (tmp_path / "run/cells/bug-seed0").mkdir(parents=True)
    (tmp_path / "run/cells/bug-seed0/metrics.csv").mkdir()
    notes = Notes()
    with pytest.raises(CellsFailedError, match=r"^2 of 3 cells failed\. The first was .*: .* --resume") as caught:
        run_grid(recipe, tmp_path / "run", workers=2, observer=notes)
    assert "\n" not in str(caught.value)
    assert notes.of("ends") == [("good-seed0",)]
    assert "gradient" in notes.reasons["bad-seed0"]
    assert "metrics.csv" in notes.reasons["bug-seed0"]
    (tmp_path / "run/cells/bug-seed0/metrics.csv").rmdir()
    with pytest.raises(CellsFailedError, match=r"^1 of 3 cells failed\. bad-seed0: "):
        run_grid(recipe, tmp_path / "run", workers=2, resume=True)
    assert is_finished(tmp_path / "run/cells/bug-seed0")


def test_what_can_be_refused_is_refused_before_anything_is_written(tiny, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="batch"):
        run_grid(tiny(data={"batch_size": 5000}), tmp_path / "run", workers=2)
    with pytest.raises(ConfigError, match="at least 1"):
        run_grid(tiny(), tmp_path / "run", workers=0)
    with pytest.raises(ConfigError, match="Leave out --devices"):
        run_grid(tiny(), tmp_path / "run", workers=2, resources=Resources(devices=2))
    monkeypatch.setenv("SLURM_PROCID", "1")
    with pytest.raises(ConfigError, match="one process only"):
        run_grid(tiny(), tmp_path / "run", workers=2)
    assert not (tmp_path / "run").exists()


def test_warnings_of_a_worker_are_sent_as_text_once(tmp_path, monkeypatch):
    def carry_out(self, job, send):
        for number in (1, 1, 2):
            warnings.warn_explicit(f"step {number}", UserWarning, "file.py", 1, registry={})
        raise ConfigError("done")

    sent = []
    monkeypatch.setattr(Bench, "carry_out", carry_out)
    monkeypatch.setattr(warnings, "filters", [])
    failed = Bench(DataShelf()).attempt(SimpleNamespace(folder=tmp_path), sent.append)
    assert (failed.reason, [event.text for event in sent]) == ("done", ["step 1", "step 2"])


def test_each_place_gets_its_own_gpu(monkeypatch):
    assert _visible_gpu(0) is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [_visible_gpu(place) for place in range(3)] == ["0", "1", "0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert [_visible_gpu(place) for place in range(3)] == ["3", "5", "3"]


SCRIPT = """
import signal, sys
from pathlib import Path
import yaml
from evolvent.experiments.grid import CellsFailedError, run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import Recipe

class Announce(Observer):
    def cell_progresses(self, cell, progress):
        print("progress", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
{guard}
    recipe = Recipe.read(yaml.safe_load(Path(sys.argv[1]).read_text()), "test")
    run_grid(recipe, Path(sys.argv[2]), workers=2, observer=Announce())
"""


def start(recipe, tmp_path, guard="if __name__ == '__main__':"):
    """A script in a process group of its own, as a shell would start it."""
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
    (tmp_path / "script.py").write_text(SCRIPT.format(guard=guard))
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "recipe.yaml"), str(tmp_path / "run")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def group_is_gone(group, seconds=10):
    """Whether no process of the group is left, soon."""
    for _ in range(int(seconds * 20)):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="POSIX")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_no_process_outlives_a_grid_that_is_ended(tiny, tmp_path, how):
    """Ctrl-C reaches the whole group; SIGKILL the parent alone."""
    process = start(tiny(seeds=[0, 1], training={"epochs": 5000}), tmp_path)
    with process:
        assert process.stdout.readline() == "progress\n", process.stderr.read()
        if how == signal.SIGINT:
            os.killpg(process.pid, how)
        else:
            process.send_signal(how)
        process.wait(20)
        errors = process.stderr.read()
    assert group_is_gone(process.pid)
    assert process.returncode != 0
    assert errors.count("Traceback") <= 1  # the parent's own
    assert not (tmp_path / "run/cells/hamiltonian-seed0/result.json").exists()


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_so(tiny, tmp_path):
    with start(tiny(seeds=[0, 1]), tmp_path, guard="if True:") as process:
        _, errors = process.communicate()
    assert "below `if __name__ == '__main__':`" in errors
    assert not (tmp_path / "run/cells").exists()
