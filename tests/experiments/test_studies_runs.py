"""Run folders of studies: written whole, not mixed, skipped when finished; and the verbs of the command line."""

import json
import math

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from evolvent import cli
from evolvent._core.errors import ConfigError
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.record import is_study, read_recipe, read_study_recipe, write_config
from evolvent.experiments.studies import run_folder as folders
from evolvent.experiments.studies import spirals
from evolvent.experiments.studies.result import Animation, Curve, Regions, StudyResult, Table
from evolvent.experiments.studies.run_folder import is_finished, read_study, run_study

TINY = ["settings.points=10", "settings.epochs=2", "settings.layers=2", "settings.shown=6", "settings.grid=4"]
FLAGS = [word for setting in TINY for word in ("--set", setting)]


def silent(share, text):
    pass


@pytest.fixture
def recipe():
    return load_recipe("spirals", [*TINY, "seeds=[0, 1]"])


def test_what_is_written_is_read_back(recipe, tmp_path):
    found = run_study(recipe, tmp_path, tell=silent)
    assert {p.name for p in tmp_path.iterdir() if not p.name.startswith(".")} == {
        "recipe.yaml",
        "environment.json",
        "study.json",
        "frames.npz",
    }
    assert read_study_recipe(tmp_path) == recipe
    assert is_study(tmp_path)
    assert json.loads((tmp_path / "environment.json").read_text())["seeds"] == [0, 1]
    again = read_study(tmp_path)
    assert [entry.seed for entry in again] == [0, 1]
    for before, after in zip(found, again, strict=True):
        assert after.result.answer == before.result.answer
        assert [list(map(list, t.rows)) for t in after.result.tables] == [
            list(map(list, t.rows)) for t in before.result.tables
        ]
        for one, other in zip(before.result.animations, after.result.animations, strict=True):
            np.testing.assert_array_equal(one.frames, other.frames)
            np.testing.assert_array_equal(one.regions.classes, other.regions.classes)
            assert one.regions.extent == other.regions.extent


def test_progress_is_told_over_all_seeds(recipe, tmp_path):
    told = []
    run_study(recipe, tmp_path, tell=lambda share, text: told.append((share, text)))
    assert told[0] == (0.0, "seed 0: residual")
    assert told[-1][1] == "seed 1: Hamiltonian"
    assert [share for share, _ in told] == sorted(share for share, _ in told)


def test_a_finished_study_is_skipped_and_never_mixed(recipe, tmp_path, monkeypatch):
    first = run_study(recipe, tmp_path, tell=silent)
    with pytest.raises(ConfigError, match="--resume"):
        run_study(recipe, tmp_path, tell=silent)
    monkeypatch.setattr(spirals, "run", None)
    again = run_study(recipe, tmp_path, resume=True, tell=silent)
    assert [entry.result.answer for entry in again] == [entry.result.answer for entry in first]
    with pytest.raises(ConfigError, match="other settings"):
        run_study(load_recipe("spirals", TINY), tmp_path, resume=True, tell=silent)
    with pytest.raises(ConfigError, match="holds a study"):
        read_recipe(tmp_path)


def test_an_interrupted_study_starts_anew(recipe, tmp_path, monkeypatch):
    def stop(share, text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(recipe, tmp_path, tell=stop)
    assert not is_finished(tmp_path)
    with pytest.raises(ConfigError, match="not finished"):
        read_study(tmp_path)
    assert len(run_study(recipe, tmp_path, resume=True, tell=silent)) == 2
    assert is_finished(tmp_path)


def test_a_folder_of_trainings_is_not_overwritten(recipe, tmp_path):
    write_config(tmp_path / "recipe.yaml", load_recipe("demo"))
    assert not is_study(tmp_path)
    assert read_study_recipe(tmp_path) is None
    with pytest.raises(ConfigError, match="other settings"):
        run_study(recipe, tmp_path, resume=True, tell=silent)


def test_what_json_cannot_say_becomes_null(tmp_path):
    curve = Curve("c", "x", "y", {"a": ([1, 2, 3], [1.0, math.nan, math.inf])})
    result = StudyResult("Yes.", [Table("t", ["n", "v"], [["a", math.inf], ["b", None]])], [curve],
                         [Animation("m", np.zeros((2, 3, 2)), np.zeros(3, dtype=int))])  # fmt: skip
    folders._write_study(tmp_path, [folders.SeedResult(4, 1.5, result)])
    assert "NaN" not in (tmp_path / "study.json").read_text()
    [entry] = read_study(tmp_path)
    assert (entry.seed, entry.seconds) == (4, 1.5)
    assert entry.result.tables[0].rows == [["a", None], ["b", None]]
    x, y = entry.result.curves[0].series["a"]
    assert x == [1, 2, 3]
    assert y[0] == 1.0
    assert all(math.isnan(value) for value in y[1:])
    assert entry.result.animations[0].regions is None
    assert Regions(np.zeros((1, 1)), (0, 1, 0, 1)).extent == (0, 1, 0, 1)


runner = CliRunner()


def answer(*arguments: str) -> str:
    done = runner.invoke(cli.app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_run_resume_and_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = answer("run", "spirals", "--seed", "3", *FLAGS)
    assert "test points" in shown
    assert "100%" not in shown.splitlines()[0]
    [folder] = (tmp_path / "runs" / "spirals").iterdir()
    assert yaml.safe_load((folder / "recipe.yaml").read_text())["seeds"] == [3]
    assert (folder / "report.html").is_file()
    assert "finished before" in answer("run", "spirals", "--seed", "3", "--resume", *FLAGS)
    (folder / "report.html").unlink()
    answer("report", str(folder))
    assert (folder / "report.html").is_file()


def test_recipes_and_citations_know_studies():
    listed = answer("recipes")
    assert "imex-global-view" in listed
    assert "demo" in listed
    assert "@inproceedings{gholami2019," in answer("cite", "discretise-optimise")
    assert "@misc{ruthotto2020survey," in answer("cite", "point_resnet")
