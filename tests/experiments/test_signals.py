"""Being asked to stop: a checkpoint, one line, the right exit code, no process left, and a training that goes on."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from faults import living

from evolvent import cli
from evolvent._core.errors import PeerError
from evolvent._core.stopping import Stopped, asked_to_stop, listening, putting_off
from evolvent.experiments.checkpoints import LAST, read_checkpoint
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.peers import noticing_lost_peers


class Asked(Observer):
    """Sends this process a signal after a step, or while an epoch ends."""

    interval = 0.0

    def __init__(self, number: int, step: int, epoch_ends: bool = False) -> None:
        self.number, self.step, self.epoch_ends = number, step, epoch_ends

    def cell_progresses(self, cell, progress):
        if (progress.step, progress.epoch_ends) == (self.step, self.epoch_ends):
            signal.raise_signal(self.number)


@pytest.mark.parametrize(
    ("number", "step", "epoch_ends"),
    [(signal.SIGTERM, 3, False), (signal.SIGINT, 5, False), (signal.SIGUSR1, 5, True), (signal.SIGUSR1, 9, False)],
    ids=str,
)
@pytest.mark.parametrize("marks", [[], [1]], ids=["plain", "multilevel"])
def test_a_signal_stops_after_the_step_with_a_checkpoint_from_which_the_run_is_the_same(
    tiny, tmp_path, assert_same_run, tmp_path_factory, number, step, epoch_ends, marks
):
    """Also at the last step of an epoch, before it is evaluated, and after."""
    recipe = tiny(data={"validation": 0.1}, training={"epochs": 2, "refine_at": marks})
    with listening(), pytest.raises(Stopped) as caught:
        run_grid(recipe, tmp_path / "cut", observer=Asked(number, step, epoch_ends))
    assert caught.value.code == 128 + number
    assert caught.value.checkpoint
    state = read_checkpoint(tmp_path / "cut")
    assert state
    assert state["step"] == step
    run_grid(recipe, tmp_path / "cut", resume=True)
    run_grid(recipe, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_second_signal_is_not_put_off():
    def ask_twice() -> None:
        signal.raise_signal(signal.SIGTERM)
        assert asked_to_stop() == signal.SIGTERM
        signal.raise_signal(signal.SIGINT)

    with listening(), pytest.raises(Stopped, match="SIGINT"), putting_off():
        ask_twice()
    assert not asked_to_stop()


def test_a_signal_that_came_too_late_for_the_last_step_is_raised_at_the_end():
    with listening(), pytest.raises(Stopped, match="SIGTERM"), putting_off():
        signal.raise_signal(signal.SIGTERM)


def test_ignored_signals_stay_ignored_and_handlers_are_put_back():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("number", "asked"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_the_command_says_how_to_go_on(monkeypatch, capsys, number, asked):
    monkeypatch.setattr(sys, "argv", ["evolvent", "run", "my recipe.yaml", "--out", "there"])
    monkeypatch.setattr(cli, "app", lambda: signal.raise_signal(number))
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 128 + number
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"stopped by {asked}" in said
    assert "Go on with: evolvent run 'my recipe.yaml' --out there --resume" in said


def test_a_lost_peer_is_one_line_and_code_1(monkeypatch, capsys):
    def lose() -> None:
        with noticing_lost_peers(world_size=2):
            raise RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1234")

    monkeypatch.setattr(cli, "app", lose)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(RuntimeError, match="mat1"), noticing_lost_peers(world_size=2):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError, match="gloo") as alone, noticing_lost_peers(world_size=1):
        raise RuntimeError("gloo")
    assert not isinstance(alone.value, PeerError)


LONG = {
    "name": "long",
    "title": "Long",
    "question": "Does it stop?",
    "model": {"name": "point_resnet", "options": {"width": 4, "layers": 2}},
    "task": {"name": "points"},
    "data": {"points": 120, "batch_size": 40, "validation": 40},
    "training": {"epochs": 60, "checkpoint_steps": 2},
}


STARTED: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard():
    """Shells switch it off for jobs in the background, and so for the tests there and what they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """A test that fails leaves no process behind."""
    yield
    while STARTED:
        process = STARTED.pop()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def start(folder: Path, recipe: dict, *options: str) -> subprocess.Popen:
    (folder / "long.yaml").write_text(yaml.safe_dump(recipe))
    command = [sys.executable, "-m", "evolvent.cli", "run", "long.yaml", "--out", "run", "--resume", *options]
    mine = {key: value for key, value in os.environ.items() if not key.startswith(("LOCAL_", "NODE_", "PYTEST"))}
    process = subprocess.Popen(command, cwd=folder, env={**mine, "OMP_NUM_THREADS": "1"}, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)  # fmt: skip
    STARTED.append(process)
    return process


def wait_for(folder: Path, pattern: str, process: subprocess.Popen) -> None:
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def changed(path: Path) -> int:
    """When a file was last written; 0 while it is not there."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def finish(process: subprocess.Popen) -> tuple[int, list[str]]:
    _, said = process.communicate(timeout=200)
    return process.returncode, said.splitlines()


def assert_all_have_ended(session: int) -> None:
    for _ in range(200):
        if not living(session):
            return
        time.sleep(0.1)
    raise AssertionError(f"processes of session {session} are left")


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")


@needs_proc
def test_workers_write_their_checkpoints_and_end_with_the_command(tmp_path):
    recipe = {**LONG, "seeds": [0, 1], "training": {"epochs": 100000}}
    process = start(tmp_path, recipe, "--workers", "2")
    wait_for(tmp_path, "run/cells/*seed0/checkpoints/last.ckpt", process)
    wait_for(tmp_path, "run/cells/*seed1/checkpoints/last.ckpt", process)
    process.send_signal(signal.SIGTERM)
    code, said = finish(process)
    assert code == 143, said
    assert len(said) == 1
    assert "Go on with: evolvent run long.yaml --out run --resume --workers 2" in said[0]
    assert_all_have_ended(process.pid)


@needs_proc
def test_two_processes_stop_together_go_on_to_the_same_metrics_and_notice_a_lost_peer(tmp_path, assert_same_run):
    whole = tmp_path / "whole"
    whole.mkdir()
    assert finish(start(whole, LONG, "--devices", "2"))[0] == 0
    process = start(tmp_path, LONG, "--devices", "2")
    wait_for(tmp_path, str("run" / LAST), process)
    process.send_signal(signal.SIGTERM)
    code, said = finish(process)
    assert (code, len(said)) == (143, 1), said
    assert "a checkpoint is written" in said[0]
    assert_all_have_ended(process.pid)

    process = start(tmp_path, LONG, "--devices", "2")
    before = changed(tmp_path / "run" / LAST)
    while changed(tmp_path / "run" / LAST) in (before, 0):
        time.sleep(0.02)
    [peer] = [one for one in living(process.pid) if one != process.pid]
    os.kill(peer, signal.SIGKILL)
    code, said = finish(process)
    assert (code, len(said)) == (1, 1), said
    assert "another process of this training has died" in said[0]
    assert_all_have_ended(process.pid)

    assert finish(start(tmp_path, LONG, "--devices", "2"))[0] == 0
    assert_same_run(whole / "run", tmp_path / "run")
