"""Kills, full disks and numbers that explode."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from evolvent import load
from evolvent._core.errors import ConfigError, NonFiniteError, StorageError
from evolvent._core.files import draft_path
from evolvent.experiments import checkpoints
from evolvent.experiments.checkpoints import LAST, AtomicCheckpointIO
from evolvent.experiments.grid import run_grid
from evolvent.experiments.record import is_finished, read_record
from evolvent.tasks.classification import Classification

TRAIN = """
import sys, torch, yaml
from pathlib import Path
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import Recipe

class Announce(Observer):
    def cell_progresses(self, cell, progress):
        print("step", progress.step, flush=True)

torch.set_num_threads(1)
import evolvent.experiments.history as history
history.Stopwatch.__init__.__defaults__ = (0.0,)  # announce every step
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


def test_killed_at_random_steps_and_resumed_the_weights_are_bitwise_those_of_an_uninterrupted_run(tiny, tmp_path):
    """Dropout, augmentation, momentum and checkpoints inside epochs are on; several kills in one run."""
    recipe = tiny(training={"epochs": 3, "checkpoint_steps": 4}, data={"validation": 0.1})
    recipe_file = tmp_path / "recipe.yaml"
    recipe_file.write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_grid(recipe, whole)
    draw = random.Random(0)
    for _ in range(4):
        kill_after(start(recipe_file, killed), draw.randrange(3, 20), draw.random() * 0.02)
        assert not is_finished(killed)
    with start(recipe_file, killed) as last:
        last.communicate()
    assert last.returncode == 0
    expected, found = (load(folder / "model").state_dict() for folder in (whole, killed))
    assert all(torch.equal(expected[key], found[key]) for key in expected)
    one, other = (read_record(folder).metrics for folder in (whole, killed))
    for column in set(one) - {"seconds", "images_per_second"}:
        assert one[column] == other[column], column


@pytest.mark.parametrize("training", [{"epochs": 3}, {"epochs": 3, "refine_at": [1, 2]}], ids=["plain", "multilevel"])
@pytest.mark.parametrize("epochs_done", [1, 2])
def test_resuming_after_a_whole_epoch_gives_the_same_weights(tiny, tmp_path, monkeypatch, epochs_done, training):
    run_grid(tiny(training=training), tmp_path / "whole")

    def stop(self, trainer, task):
        trainer.save_checkpoint(self.path)
        if trainer.current_epoch + 1 == epochs_done:
            raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.LastCheckpoint, "on_train_epoch_end", stop)
        with pytest.raises(RuntimeError, match="power cut"):
            run_grid(tiny(training=training), tmp_path / "cut")
    run_grid(tiny(training=training), tmp_path / "cut", resume=True)
    expected, found = (load(tmp_path / name / "model").state_dict() for name in ("whole", "cut"))
    assert all(torch.equal(expected[key], found[key]) for key in expected)


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


def test_a_full_disk_while_saving_is_reported_and_the_earlier_checkpoint_stays(tiny, tmp_path, monkeypatch):
    real, saved = torch.save, []

    def save(content, path):
        if saved:
            Path(path).write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        saved.append(real(content, path))

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(StorageError, match=r"no space left.*earlier last.ckpt is intact.*--resume"):
        run_grid(tiny(), tmp_path / "run")
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "run/checkpoints").iterdir()] == ["last.ckpt"]
    run_grid(tiny(), tmp_path / "run", resume=True)
    assert is_finished(tmp_path / "run")


def test_a_loss_that_explodes_stops_training_and_names_step_and_layer(tiny, tmp_path):
    recipe = tiny(optimizer={"lr": 1e8}, schedule={"name": "constant", "warmup": 0.5})
    with pytest.raises(NonFiniteError, match=r"at step \d+: the loss is .* gradient of '.*' was the first"):
        run_grid(recipe, tmp_path / "run")
    assert not is_finished(tmp_path / "run")
    assert not (tmp_path / "run/model").exists()


def test_the_last_good_checkpoint_stays_when_the_loss_explodes(tiny, tmp_path, monkeypatch):
    def poison(self):
        if self.trainer.current_epoch == 1:
            self.model.head.linear.weight.data.fill_(float("nan"))

    monkeypatch.setattr(Classification, "on_train_epoch_start", poison)
    with pytest.raises(NonFiniteError, match=r"at step 29: the loss is nan and the gradient of 'head.linear.bias'"):
        run_grid(tiny(), tmp_path / "run")
    state = AtomicCheckpointIO().load_checkpoint(tmp_path / "run" / LAST)["state_dict"]
    assert all(tensor.isfinite().all() for tensor in state.values())


def test_a_foreign_checkpoint_is_refused_in_one_line(tiny, tmp_path):
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    (tmp_path / "run" / LAST).write_bytes(b"not a checkpoint")
    with pytest.raises(ConfigError, match="is no checkpoint of ours") as caught:
        run_grid(tiny(), tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_a_checkpoint_with_code_in_it_is_refused_and_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    torch.save({"state": Trap()}, tmp_path / "trap.ckpt")
    with pytest.raises(ConfigError, match="no checkpoint of ours"):
        AtomicCheckpointIO().load_checkpoint(tmp_path / "trap.ckpt")
    assert not (tmp_path / "sprung").exists()
