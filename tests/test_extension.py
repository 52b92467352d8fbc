"""The example extension, built and installed as a user does it, is known by name, trains and reports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "extension"
CHECK = """
import sys
from pathlib import Path
import torch
from evolvent.experiments import load_recipe, run_grid
from evolvent.operators import make_operator
from evolvent.testing import check_network, check_operator, check_task

if __name__ == "__main__":
    check_operator(make_operator("periodic", 2, 3), (2, 2, 6, 7), (2, 3, 6, 7))
    check_network("trained_diffusion", torch.randn(2, 1, 8, 8), in_channels=1, features=2, steps=2)
    assert check_task(load_recipe("denoise-ripples", ["training.epochs=2"]), sys.argv[1]) == []
    one = ["training.epochs=1", "variants={}", "model.options.operator=periodic"]
    assert run_grid(load_recipe("classify-ripples", one), Path(sys.argv[1], "ripples"))
"""


def python(*arguments: object, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own that finds what is installed in ``packages``."""
    path = [str(packages or ""), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), "COLUMNS": "200"}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A folder with the extension installed; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("packages")
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
    python("-m", "pip", "install", *offline, "--target", folder, EXAMPLE)
    return folder


@pytest.fixture
def broken(packages):
    """A second extension, which cannot be imported, beside the first."""
    info, module = packages / "broken_pack-1.0.dist-info", packages / "broken_pack.py"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-pack\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[evolvent.extensions]\nbroken = broken_pack\n")
    module.write_text("import a_package_that_is_missing\n")
    yield
    for path in (*info.iterdir(), module):
        path.unlink()
    info.rmdir()


def test_the_command_line_knows_what_the_extension_brings(packages):
    script = (
        "from typer.testing import CliRunner\n"
        "from evolvent.cli import app\n"
        "for command in (['models', 'trained*'], ['recipes'], ['data', 'list']):\n"
        "    print(CliRunner().invoke(app, command).output)\n"
    )
    listed = python("-W", "error", "-c", script, packages=packages).stdout
    for name in ("trained_diffusion", "denoise-ripples", "classify-ripples", "denoising", "1x12x12"):
        assert name in listed


def test_its_recipe_trains_and_its_findings_are_in_the_report(packages, tmp_path):
    settings = ("--set", "training.epochs=2", "--out", tmp_path / "run")
    python("-m", "evolvent.cli", "run", "denoise-ripples", *settings, packages=packages)
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for title in ("Error by place", "Error by noise", "A test image", "Reference", "Difference"):
        assert title in report


def test_it_keeps_the_contracts_and_its_images_are_classified(packages, tmp_path):
    script = tmp_path / "check.py"
    script.write_text(CHECK)
    python(script, tmp_path / "runs", packages=packages)


def test_a_broken_extension_is_left_out_with_a_warning(packages, broken):
    done = python("-m", "evolvent.cli", "cite", "trained_diffusion", packages=packages)
    assert "Chen, Yunjin" in done.stdout
    said = " ".join((done.stdout + done.stderr).split())
    assert "broken-pack" in said
    assert "a_package_that_is_missing" in said
