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
    for needed in ("sphinx", "myst_parser", "furo", "sphinx_gallery", "sphinx_copybutton", "sphinx-mathjax-offline"):
        pytest.importorskip(needed, reason="needs the extra 'docs'")
    sources = {"docs": ("_build", "gallery"), "examples": (), "benchmarks": ()}  # whose results are shown in tables
    for folder, built in sources.items():
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns(*built, "__pycache__"))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-D", "plot_gallery=0"]
    done = subprocess.run([*command, "docs", "html"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "concepts" / "evolution.html").read_text(encoding="utf-8")
    assert "_static/mathjax/tex-chtml.js" in page  # equations show without internet
    assert (tmp_path / "html" / "_static" / "mathjax" / "tex-chtml.js").is_file()
    assert "cdn.jsdelivr" not in page
