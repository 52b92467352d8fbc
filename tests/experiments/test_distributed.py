"""Two processes against one with the same global batch."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evolvent.experiments.record import read_metrics

SETTINGS = (
    "model.name=hamiltonian", "model.options={channels: [8, 16], blocks: 1, step_size: 0.2}", "variants={}",
    "seeds=[0]", "data.name=digits", "data.batch_size=40", "training.epochs=1", "task.smoothness=1.0e-4",
)  # fmt: skip

# The command line, with each process's loss of every step written down.
LISTENER = """
import json, os, sys
from evolvent.tasks.image_task import ImageTask

losses, count = [], ImageTask._count
def listen(self, loss, logits, labels):
    losses.append(loss.item())
    count(self, loss, logits, labels)
ImageTask._count = listen

from evolvent.cli import app
app(standalone_mode=False)
rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
open(os.path.join(os.environ["LOSSES"], rank + ".json"), "w").write(json.dumps(losses))
"""


def run(tmp_path: Path, name: str, launcher: list[str], *options: str, settings: Sequence[str] = SETTINGS) -> Path:
    """Run the command line with ``launcher``; losses of each rank end in ``<name>-losses``."""
    script, losses = tmp_path / "listen.py", tmp_path / f"{name}-losses"
    script.write_text(LISTENER)
    losses.mkdir()
    command = [*launcher, str(script), "run", "demo", "--out", str(tmp_path / name), *options]
    for setting in settings:
        command += ["--set", setting]
    mine = {key: value for key, value in os.environ.items() if not key.startswith(("LOCAL_", "NODE_", "PYTEST"))}
    env = {**mine, "OMP_NUM_THREADS": "1", "LOSSES": str(losses)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return losses


def step_losses(folder: Path) -> list[float]:
    """The loss of each step over the global batch: the mean over the ranks' equal shares."""
    ranks = [json.loads(path.read_text()) for path in sorted(folder.iterdir())]
    return [sum(step) / len(ranks) for step in zip(*ranks, strict=True)]


@pytest.mark.parametrize(
    "launcher",
    [[sys.executable], [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29611"]],
    ids=["lightning", "torchrun"],
)
def test_two_processes_have_the_losses_of_one(tmp_path, launcher):
    alone = step_losses(run(tmp_path, "one", [sys.executable]))
    ranks = run(tmp_path, "two", launcher, "--devices", "2")
    assert len(list(ranks.iterdir())) == 2
    together = step_losses(ranks)
    assert len(alone) == 1437 // 40
    assert together == pytest.approx(alone, abs=1e-5)
    one, two = (read_metrics(tmp_path / name / "metrics.csv") for name in ("one", "two"))
    for column in ("train_loss", "test_loss", "train_accuracy", "test_accuracy"):
        assert two[column] == pytest.approx(one[column], abs=1e-5), column
    assert (tmp_path / "two/report.html").is_file()


PIXEL_SETTINGS = (
    "model.name=hamiltonian", "model.options={channels: [8], blocks: 1, step_size: 0.2}", "variants={}", "seeds=[0]",
    "data={name: camvid, batch_size: 4, reduce: 8, augment: {pad: 1, flip: true}}", "published=[]",
    "task={name: segmentation, class_weights: median}", "training.epochs=2",
)  # fmt: skip


def test_two_processes_have_the_losses_of_one_although_their_pixels_are_not_equally_many(tmp_path):
    draw, parts = np.random.default_rng(0), {}
    for part, count in (("train", 8), ("val", 3), ("test", 3)):
        coarse = draw.integers(0, 12, (count, 15, 20), dtype=np.uint8)
        coarse[::2, 3:] = 11  # of every other image, little has a class
        parts[f"y_{part}"] = coarse.repeat(8, 1).repeat(8, 2)
        parts[f"x_{part}"] = draw.integers(0, 256, (count, 120, 160, 3), dtype=np.uint8)
    np.savez(tmp_path / "camvid.npz", **parts)
    where = ("--data", str(tmp_path))
    alone = step_losses(run(tmp_path, "one", [sys.executable], *where, settings=PIXEL_SETTINGS))
    together = step_losses(run(tmp_path, "two", [sys.executable], "--devices", "2", *where, settings=PIXEL_SETTINGS))
    assert len(alone) == 4
    assert together == pytest.approx(alone, abs=1e-5)
    one, two = (read_metrics(tmp_path / name / "metrics.csv") for name in ("one", "two"))
    for column in ("val_loss", "train_accuracy", "val_accuracy", "val_miou"):
        assert two[column] == pytest.approx(one[column], abs=1e-5), column


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    command = [sys.executable, "-m", "evolvent.cli", "run", "demo", "--devices", "2", "--set", "data.batch_size=33",
               "--set", "data.name=digits", "--out", str(tmp_path / "run")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "multiple" in done.stderr
    assert not (tmp_path / "run").exists()
