"""The seven commands of the quickstart, from an empty folder, with the built wheel installed."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def commands() -> list[str]:
    """The first shell block of the page."""
    page = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    block = page.split("```console\n", 1)[1].split("```", 1)[0]
    return [line.removeprefix("$ ") for line in block.splitlines()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The executables of an environment that has the wheel, and what the library builds on from this one."""
    pytest.importorskip("hatchling")
    root = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    venv.create(root / "venv", with_pip=False)
    python = root / "venv" / "bin" / "python"
    [wheel] = (root / "dist").glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    [packages] = (root / "venv" / "lib").glob("python*/site-packages")
    (packages / "beside.pth").write_text(sysconfig.get_path("purelib"))  # its own .pth files are not followed
    return python.parent


@pytest.mark.timeout(900)  # seven processes that import torch
def test_the_seven_commands_lead_from_an_empty_folder_to_an_onnx_file(installed, tmp_path):
    pytest.importorskip("onnxruntime")
    assert len(commands()) == 7
    surroundings = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "EVOLVENT_DATA")}
    surroundings |= {"PATH": f"{installed}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    printed = {}
    for command in commands():
        quick = command.replace(" --out runs", " --set training.epochs=2 --out runs") if " run " in command else command
        done = subprocess.run(quick, shell=True, cwd=tmp_path, env=surroundings, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        printed[command.split()[1]] = done.stdout
    where = [str(installed / "python"), "-c", "import evolvent; print(evolvent.__file__)"]
    home = subprocess.run(where, env=surroundings, capture_output=True, text=True, check=True).stdout
    assert home.startswith(str(installed.parent))
    assert "square" in printed["evaluate"]
    assert "shape 1 x 40 x 56, uint8" in printed["export"]
    with (tmp_path / "answers.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 12
    shares = list(map(float, re.findall(r"[\d.]+(?:e-\d+)?(?=[,\]])", printed["-c"])))
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(1, abs=1e-4)
