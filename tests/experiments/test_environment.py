"""The recorded state of the source tree is that of the package's own tree."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from evolvent.experiments import environment as module

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Iterator[Path]:
    """A copy of the module below a repository that has one commit without it."""
    git(tmp_path, "init", "-q")
    (tmp_path / "work.py").write_text("")
    git(tmp_path, "add", "work.py")
    git(tmp_path, "commit", "-qm", "first")
    path = tmp_path / ".venv/site-packages/evolvent/experiments/environment.py"
    path.parent.mkdir(parents=True)
    shutil.copy(module.__file__, path)
    monkeypatch.setattr(module, "__file__", str(path))
    module._git_state.cache_clear()  # a process looks once
    yield path
    module._git_state.cache_clear()


def test_a_repository_around_an_installed_package_is_not_described(installed):
    assert module.environment(0, 1, 1)["git"] is None


def test_the_repository_that_tracks_the_package_is_described(installed, tmp_path):
    git(tmp_path, "add", "-f", str(installed))
    git(tmp_path, "commit", "-qm", "package")
    commit = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    assert module.environment(0, 1, 1)["git"] == commit
    installed.write_text("changed")
    assert module.environment(0, 1, 1)["git"] == commit  # that of the code that runs
    module._git_state.cache_clear()
    assert module.environment(0, 1, 1)["git"] == f"{commit}-dirty"


def test_no_git_no_state(installed, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert module.environment(0, 1, 1)["git"] is None
