"""The documentation builds without a warning."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_sphinx_builds_without_a_warning(tmp_path):
    for needed in ("sphinx", "myst_parser", "furo", "sphinx_gallery", "sphinx_copybutton"):
        pytest.importorskip(needed, reason="needs the extra 'docs'")
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("_build", "gallery", "__pycache__"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-D", "plot_gallery=0"]
    done = subprocess.run([*command, "docs", "html"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
