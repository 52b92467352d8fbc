"""Kills, full disks and numbers that explode."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from evolvent._core.errors import ConfigError, NonFiniteError, StorageError
from evolvent._core.files import draft_path
from evolvent.experiments import training
from evolvent.experiments.checkpoints import LAST, PREVIOUS, read_checkpoint, write_checkpoint
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.record import is_finished
from evolvent.tasks.classification import Classification

TRAIN = """
import sys, torch, yaml
from pathlib import Path
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import Recipe

class Announce(Observer):
    interval = 0.0
    def cell_progresses(self, cell, progress):
        print("step", progress.step, flush=True)

torch.set_num_threads(1)
recipe = Recipe.read(yaml.safe_load(Path(sys.argv[1]).read_text()), "test")
run_grid(recipe, Path(sys.argv[2]), resume=True, observer=Announce())
"""


def start(recipe_file: Path, folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", TRAIN, str(recipe_file), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def kill_after(process: subprocess.Popen, steps: int, delay: float) -> None:
    """SIGKILL once the training has announced so many steps, and a little later."""
    assert process.stdout
    with process:
        for seen, _ in enumerate(process.stdout):
            if seen + 1 == steps:
                break
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)


def test_killed_at_random_steps_and_resumed_the_weights_are_bitwise_those_of_an_uninterrupted_run(
    tiny, tmp_path, assert_same_run
):
    """Dropout, augmentation, momentum and checkpoints inside epochs are on; two kills in one run."""
    recipe = tiny(training={"epochs": 3, "checkpoint_steps": 3}, data={"validation": 0.1, "fraction": 0.5})
    recipe_file = tmp_path / "recipe.yaml"
    recipe_file.write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_grid(recipe, whole)
    draw = random.Random(0)
    for _ in range(2):
        kill_after(start(recipe_file, killed), draw.randrange(4, 14), draw.random() * 0.02)
        assert not is_finished(killed)
    run_grid(recipe, killed, resume=True)
    assert_same_run(whole, killed)


@pytest.fixture(scope="module")
def whole_runs() -> dict[str, Path]:
    return {}


@pytest.mark.parametrize("kind", ["plain", "multilevel"])
@pytest.mark.parametrize("cut", [{"epoch": 1}, {"epoch": 2}, {"step": 4}, {"step": 8}], ids=str)
def test_resuming_gives_the_same_weights(
    tiny, tmp_path_factory, tmp_path, power_cut, assert_same_run, whole_runs, monkeypatch, kind, cut
):
    """After whole epochs, and inside of them between two checkpoints."""
    monkeypatch.setattr(training, "_WRITE_SECONDS", 0.0)
    marks = [1, 2] if kind == "multilevel" else []
    recipe = tiny(training={"epochs": 3, "refine_at": marks, "checkpoint_steps": 3})
    if kind not in whole_runs:
        whole_runs[kind] = tmp_path_factory.mktemp("runs") / kind
        run_grid(recipe, whole_runs[kind])
    with power_cut().expected:
        run_grid(recipe, tmp_path / "cut", observer=power_cut(**cut))
    run_grid(recipe, tmp_path / "cut", resume=True)
    assert_same_run(whole_runs[kind], tmp_path / "cut")


def test_a_half_written_file_is_never_taken_for_whole(tiny, tmp_path):
    """What a kill in the middle of a write leaves: drafts beside whole files, and no result."""
    run_grid(tiny(), tmp_path / "run")
    (tmp_path / "run/result.json").unlink()
    drafts = [draft_path(tmp_path / "run"), draft_path(tmp_path / "run/checkpoints")]
    for draft in drafts:
        draft.write_bytes(b"half")
    results = run_grid(tiny(), tmp_path / "run", resume=True)
    assert results["hamiltonian-seed0"].epochs == 2
    assert not any(draft.exists() for draft in drafts)


class FullDisk(Observer):
    """From the second epoch on no file may be larger than a few kilobytes, as if the disk were full."""

    def cell_progresses(self, cell, progress):
        if progress.epoch == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))


def test_a_full_disk_while_saving_is_reported_and_the_earlier_checkpoint_stays(
    tiny, tmp_path, monkeypatch, assert_same_run
):
    """torch.save hides the reason behind a RuntimeError of its own."""
    monkeypatch.setattr(training, "_WRITE_SECONDS", 0.0)
    recipe = tiny(training={"epochs": 3})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(StorageError, match=r"no space left.*earlier last.ckpt is intact.*--resume"):
            run_grid(recipe, tmp_path / "run", observer=FullDisk())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["last.ckpt"]
    run_grid(recipe, tmp_path / "run", resume=True)
    run_grid(recipe, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_loss_that_explodes_stops_training_and_names_step_and_layer(tiny, tmp_path):
    recipe = tiny(optimizer={"lr": 1e8}, schedule={"name": "constant", "warmup": 0.5})
    with pytest.raises(NonFiniteError, match=r"at step \d+: the loss is .* gradient of '.*' was the first"):
        run_grid(recipe, tmp_path / "run")
    assert not is_finished(tmp_path / "run")
    assert not (tmp_path / "run/model").exists()


def test_the_last_good_checkpoint_stays_when_the_loss_explodes(tiny, tmp_path, monkeypatch):
    real = Classification.objective

    def poison(self, batch, turn):
        if batch.epoch == 1:
            self.model.head.linear.weight.data.fill_(float("nan"))
        return real(self, batch, turn)

    monkeypatch.setattr(Classification, "objective", poison)
    with pytest.raises(NonFiniteError, match=r"at step 5: the loss is nan and the gradient of 'head.linear.bias'"):
        run_grid(tiny(), tmp_path / "run")
    state = read_checkpoint(tmp_path / "run")
    assert state is not None
    assert all(tensor.isfinite().all() for tensor in state["task"].values())


@pytest.mark.parametrize("content", [b"not a checkpoint", b"", b"PK\x03\x04 torn"])
def test_a_foreign_checkpoint_is_refused_in_one_line(tiny, tmp_path, content):
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    (tmp_path / "run" / LAST).write_bytes(content)
    with pytest.raises(ConfigError, match="not one of our checkpoints") as caught:
        run_grid(tiny(), tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_a_checkpoint_with_code_in_it_is_refused_and_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    (tmp_path / LAST).parent.mkdir()
    torch.save({"state": Trap()}, tmp_path / LAST)
    with pytest.raises(ConfigError, match="not one of our checkpoints") as caught:
        read_checkpoint(tmp_path)
    assert not (tmp_path / "sprung").exists()
    assert "weights_only" not in str(caught.value)
    assert "can still be loaded" not in str(caught.value)


STATE = {"step": 3, "task": {}, "optimizers": [], "sums": {}, "rows": [], "ended": False}


def test_a_checkpoint_of_a_later_format_is_refused_in_one_line(tmp_path):
    write_checkpoint(tmp_path, STATE)
    state = read_checkpoint(tmp_path)
    assert state is not None
    assert state["step"] == 3
    torch.save({**state, "format": state["format"] + 1}, tmp_path / LAST)
    with pytest.raises(ConfigError, match=r"of another version of the library. Delete .*checkpoints to start again"):
        read_checkpoint(tmp_path)


def test_a_checkpoint_of_an_earlier_version_is_read(tmp_path):
    (tmp_path / LAST).parent.mkdir()
    torch.save({"format": 1, **STATE}, tmp_path / LAST)
    state = read_checkpoint(tmp_path)
    assert state is not None
    assert state["step"] == 3


@pytest.mark.parametrize("older", [False, True])
def test_no_flipped_bit_of_a_checkpoint_loads_silently(tmp_path, older):
    """A file of ours has a checksum over all of it; of an earlier version those of the archive over its tensors."""
    state = {**STATE, "task": {"weight": torch.arange(500.0)}}
    write_checkpoint(tmp_path, state)
    if older:
        torch.save({"format": 1, **state}, tmp_path / LAST)
    whole, draw = (tmp_path / LAST).read_bytes(), random.Random(0)
    for _ in range(100):
        place, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
        (tmp_path / LAST).write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        try:
            found = read_checkpoint(tmp_path)
        except ConfigError:
            continue
        assert older
        assert found
        assert torch.equal(found["task"]["weight"], state["task"]["weight"])


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tiny, tmp_path, power_cut, assert_same_run, damage):
    recipe, said = tiny(training={"epochs": 2, "checkpoint_steps": 2}), []
    with power_cut().expected:
        run_grid(recipe, tmp_path / "cut", observer=power_cut(step=9))
    last = tmp_path / "cut" / LAST
    content = bytearray(last.read_bytes())
    if damage == "truncated":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2] ^= 1
    last.write_bytes(content)

    class Listener(Observer):
        def cell_warns(self, cell, text):
            said.append(text)

    run_grid(recipe, tmp_path / "cut", resume=True, observer=Listener())
    [line] = said
    assert "last.ckpt is damaged" in line
    assert "from the one before, at step 6" in line
    run_grid(recipe, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_kill_between_the_two_renames_leaves_the_checkpoint_before(tmp_path):
    write_checkpoint(tmp_path, STATE)
    (tmp_path / LAST).rename(tmp_path / PREVIOUS)
    state = read_checkpoint(tmp_path, warn=pytest.fail)
    assert state is not None
    assert state["step"] == 3
