"""The catalogue can be extended: by a program, and by an installed package."""

import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest
from warm_interpreter import Program

import evolvent
from evolvent.data import Arrays, CatalogueEntry, Layout, list_datasets, load, register_dataset
from evolvent.data.datasets import DATASETS
from evolvent.errors import NameClashError

EXTENSION = """
    import numpy as np
    from evolvent.data import Arrays, CatalogueEntry, Layout, register_dataset

    def read(files):
        images, labels = np.zeros((4, 1, 2, 2), np.uint8), np.arange(4) % 2
        return Arrays(images, labels, images, labels)

    def register(name="stars"):
        register_dataset(
            CatalogueEntry(
                name=name, title="Stars", shape=(1, 2, 2), classes=("dim", "bright"), class_count=2, train_count=4,
                test_count=4, layouts=(Layout("stars", (("stars.bin",),), read),), home="https://example.org",
            )
        )
"""


def entry(name: str) -> CatalogueEntry:
    def read(_files) -> Arrays:
        images, labels = np.zeros((4, 1, 2, 2), np.uint8), np.arange(4) % 2
        return Arrays(images, labels, images, labels)

    layout = Layout("stars", (("stars.bin",),), read)
    return CatalogueEntry(name, "Stars", (1, 2, 2), ("dim", "bright"), 2, 4, 4, (layout,), "https://example.org")


@pytest.fixture
def stars(monkeypatch) -> str:
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))
    register_dataset(entry("stars"))
    return "stars"


def test_a_registered_set_is_listed_and_loaded(stars, tmp_path):
    (tmp_path / "stars.bin").write_bytes(b"")
    assert stars in list_datasets("st*")
    assert len(load(stars, tmp_path).train) == 4


def test_a_name_is_registered_once(stars):
    for name in (stars, "mnist"):
        with pytest.raises(NameClashError, match=f"data set '{name}' is registered twice"):
            register_dataset(entry(name))


@pytest.fixture
def site(tmp_path) -> Path:
    """A folder with an installed package that registers a data set, and the data."""
    (tmp_path / "star_pack.py").write_text(textwrap.dedent(EXTENSION))
    (tmp_path / "stars.bin").write_bytes(b"")
    info = tmp_path / "star_pack-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: star-pack\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[evolvent.extensions]\nstars = star_pack:register\n")
    return tmp_path


@pytest.fixture
def run(site, interpreter):
    """Run a program that has the folder of installed packages on its path."""

    def run_program(program: str) -> subprocess.CompletedProcess[str]:
        script = site / "program.py"
        script.write_text(program)
        path = [str(site), str(Path(evolvent.__file__).parents[1])]
        return interpreter.run(Program(str(script), str(site), path, {"EVOLVENT_DATA": str(site)}, ["default"]))

    return run_program


def test_the_set_of_an_installed_package_is_known_to_every_command(run):
    done = run("from evolvent import data; print(len(data.load('stars').train))")
    assert done.stdout.strip() == "4", done.stderr
    done = run("import sys; sys.argv = ['evolvent', 'data', 'list']; from evolvent.cli import main; main()")
    assert "stars" in done.stdout, done.stderr


def test_an_installed_package_cannot_take_the_name_of_a_known_set(site, run):
    code = (site / "star_pack.py").read_text()
    (site / "star_pack.py").write_text(code.replace('name="stars"', 'name="mnist"'))
    done = run("import sys; sys.argv = ['evolvent', 'data', 'list']; from evolvent.cli import main; main()")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    message = " ".join((done.stdout + done.stderr).split())
    assert "'mnist' is registered twice: by evolvent or this program and by star-pack" in message
