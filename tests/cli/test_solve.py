"""``evolvent solve`` as a user types it."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import evolvent as ev
from evolvent import cli
from evolvent.errors import ConfigError, UnknownNameError

runner = CliRunner()
FAST = ["--set", "model.options.width=6", "--set", "model.options.layers=1", "--set", "data.points=100",
        "--set", "data.grid=[16, 9]", "--set", "optimizer.iterations=5", "--set", "training.epoch_steps=2",
        "--set", "task.phases=[{steps: 1, optimizer: {name: adam, lr: 0.01, iterations: 5}}]"]  # fmt: skip


def answer(*arguments: str) -> str:
    done = runner.invoke(cli.app, ["solve", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_without_a_name_problems_are_listed():
    text = answer()
    for name in ("allen-cahn", "burgers", "viscosity", "galerkin, pinn, ritz"):
        assert name in text, name


def test_progress_verdict_and_files(tmp_path):
    files = ["--out", str(tmp_path / "run"), "--csv", str(tmp_path / "u.csv"), "--npz", str(tmp_path / "u.npz")]
    text = answer("heat", *FAST, "--set", "training.steps=4", "--option", "diffusion=0.1", *files)
    for shown in ("loss equation", "initial", "error", "left", "Do not trust it", "second solution", "report: "):
        assert shown in text, shown
    assert "solved twice, to compare" in text
    assert (tmp_path / "u.csv").read_text().startswith("x,t,u,reference_u\n")
    with np.load(tmp_path / "u.npz") as stored:
        assert stored["u"].shape == (256, 101)
    assert (tmp_path / "run" / "report.html").is_file()
    found = ev.load(tmp_path / "run")
    assert found.coefficients == {"diffusion": 0.1}
    assert not found.trust.trusted


def test_the_reference_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "cache"))
    text = answer("kdv", "--reference", "--option", "until=0.02", "--npz", str(tmp_path / "kdv.npz"))
    assert "steps twice as long change it by" in text
    assert "stored: " in text
    [stored] = (tmp_path / "cache" / "references").iterdir()
    before = stored.stat().st_mtime_ns
    again = answer("kdv", "--reference", "--option", "until=0.02", "--csv", str(tmp_path / "kdv.csv"))
    assert "stored: " in again
    assert stored.stat().st_mtime_ns == before
    assert (tmp_path / "kdv.csv").read_text().startswith("x,t,u\n")
    assert "closed form" in answer("heat", "--reference")


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="name=value such as viscosity"):
        answer("heat", "--option", "diffusion")
    with pytest.raises(ConfigError, match="the value of --option diffusion is not valid YAML"):
        answer("heat", "--option", "diffusion=[1")
    with pytest.raises(UnknownNameError, match="bsde-hjb"):
        answer("hjb")
    with pytest.raises(UnknownNameError, match="bsde-allen-cahn"):
        answer("allen-cahn", "--option", "d=100")
    with pytest.raises(UnknownNameError, match="heat"):
        answer("heet")
    with pytest.raises(ConfigError, match="too small"):
        answer("heat", "--budget", "1s", "--out", str(tmp_path / "run"))


def test_killed_and_resumed_it_goes_on(tmp_path):
    out = str(tmp_path / "run")
    command = [sys.executable, "-m", "evolvent.cli", "solve", "heat", "--no-second", "--budget", "10m", "--out", out]
    first = subprocess.Popen([*command, *FAST, "--set", "training.checkpoint_steps=1"], stdout=subprocess.DEVNULL)
    checkpoint = tmp_path / "run" / "checkpoints" / "last.ckpt"
    end = time.monotonic() + 200
    while not checkpoint.is_file() and time.monotonic() < end:
        time.sleep(0.1)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert checkpoint.is_file()
    recipe = tmp_path / "run" / "recipe.yaml"
    assert "budget" in recipe.read_text()
    for path in (recipe, tmp_path / "run" / "config.yaml"):  # so that the test need not wait for the whole time
        lines = [line for line in path.read_text().splitlines() if not line.startswith("sha256")]
        path.write_text("\n".join("  budget: 0.5" if "  budget:" in line else line for line in lines) + "\n")
    text = answer("heat", "--resume", "--out", out)
    assert "resumes from the last checkpoint" in text
    assert "trust it" in text.lower()
