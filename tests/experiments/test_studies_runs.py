"""Run folders of studies: each seed is written when it ends, so that a killed study can be continued."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from evolvent import cli
from evolvent._core.errors import ConfigError
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.record import is_study, read_recipe, write_config
from evolvent.experiments.studies import multilevel
from evolvent.experiments.studies.run_folder import read_study, run_study, study_is_finished

TINY = ["settings.images=50", "settings.epochs=[1, 1]", "settings.channels=2", "settings.coarsest=1",
        "settings.repeats=1"]  # fmt: skip
FLAGS = [word for setting in TINY for word in ("--set", setting)]


def silent(share, text):
    pass


@pytest.fixture
def recipe():
    return load_recipe("multilevel", [*TINY, "seeds=[0, 1]"])


def files(folder) -> set[str]:
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {name for name in found if not name.startswith(".")}


def plain(found) -> list:
    """Everything but the time that it took."""
    return [(entry.seed, entry.findings.pack()[0]) for entry in found]


def test_what_is_written_is_read_back(recipe, tmp_path):
    found = run_study(recipe, tmp_path, tell=silent)
    seeds = {f"seeds/{k}/{name}" for k in (0, 1) for name in ("findings.json", "findings.npz", "seconds.json")}
    assert files(tmp_path) == {"recipe.yaml", "environment.json"} | seeds
    assert read_recipe(tmp_path) == recipe
    assert is_study(tmp_path)
    assert study_is_finished(tmp_path)
    assert json.loads((tmp_path / "environment.json").read_text())["seeds"] == [0, 1]
    assert {json.loads(path.read_text())["format"] for path in tmp_path.rglob("*.json")} == {1}
    again = read_study(tmp_path)
    assert [entry.seed for entry in again] == [0, 1]
    assert plain(again) == plain(found)
    assert all(entry.seconds > 0 for entry in again)


def test_what_is_read_is_what_the_study_returned(recipe, tmp_path):
    run_study(recipe, tmp_path, tell=silent)
    settings = multilevel.Settings.read(recipe.settings, "test")
    expected = multilevel.run(settings, 1, silent)
    found = read_study(tmp_path)[1].findings
    assert found.answer == expected.answer
    assert found.tables == expected.tables
    for one, other in zip(found.curves, expected.curves, strict=True):
        assert one.title == other.title
        for name, line in one.series.items():
            np.testing.assert_array_equal(line, other.series[name])


def test_progress_is_told_over_all_seeds(recipe, tmp_path):
    told = []
    run_study(recipe, tmp_path, tell=lambda share, text: told.append((share, text)))
    assert told[0][1] == "seed 0: multilevel 1 → 2"
    assert told[-1] == (1.0, "seed 1: direct 2")
    assert [share for share, _ in told] == sorted(share for share, _ in told)


def test_a_finished_study_is_skipped_and_never_mixed(recipe, tmp_path, monkeypatch):
    first = run_study(recipe, tmp_path, tell=silent)
    with pytest.raises(ConfigError, match="--resume"):
        run_study(recipe, tmp_path, tell=silent)
    monkeypatch.setattr(multilevel, "run", None)
    assert plain(run_study(recipe, tmp_path, resume=True, tell=silent)) == plain(first)
    with pytest.raises(ConfigError, match="other settings"):
        run_study(load_recipe("multilevel", TINY[:-1]), tmp_path, resume=True, tell=silent)


def test_seeds_can_be_added(recipe, tmp_path):
    run_study(recipe, tmp_path, tell=silent)
    before = (tmp_path / "seeds" / "0" / "seconds.json").stat().st_mtime_ns
    told = []
    wider = load_recipe("multilevel", [*TINY, "seeds=[3, 1]"])
    found = run_study(wider, tmp_path, resume=True, tell=lambda share, text: told.append(text))
    assert [entry.seed for entry in found] == [3, 1]
    assert [entry.seed for entry in read_study(tmp_path)] == [0, 1, 3]
    assert "multilevel 1 → 2" in told  # the one seed that was missing
    assert (tmp_path / "seeds" / "0" / "seconds.json").stat().st_mtime_ns == before
    assert read_recipe(tmp_path).seeds == [0, 1, 3]
    assert study_is_finished(tmp_path, [3])
    assert not study_is_finished(tmp_path, [3, 4])


STUDY = """
import sys, time, torch
from pathlib import Path
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.studies.run_folder import run_study

def tell(share, text):
    if text.startswith("seed 1"):
        print("in the middle of seed 1", flush=True)
        time.sleep(600)

torch.set_num_threads(1)
run_study(load_recipe("multilevel", sys.argv[2:]), Path(sys.argv[1]), tell=tell)
"""


def test_killed_and_resumed_the_result_is_that_of_an_uninterrupted_study(tmp_path):
    settings, folder = [*TINY, "seeds=[0, 1, 2]"], tmp_path / "killed"
    command = [sys.executable, "-c", STUDY, str(folder), *settings]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout
        assert "seed 1" in process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert not study_is_finished(folder)
    assert [entry.seed for entry in read_study(folder)] == [0]
    told = []
    recipe = load_recipe("multilevel", settings)
    resumed = run_study(recipe, folder, resume=True, tell=lambda share, text: told.append(text))
    assert not any(text.startswith("seed 0") for text in told)
    assert plain(resumed) == plain(run_study(recipe, tmp_path / "whole", tell=silent))
    assert study_is_finished(folder)


def test_a_seed_that_was_not_wholly_written_is_repeated(recipe, tmp_path):
    run_study(recipe, tmp_path, tell=silent)
    (tmp_path / "seeds" / "1" / "findings.json").unlink()
    assert not study_is_finished(tmp_path)
    assert len(read_study(tmp_path)) == 1
    assert len(run_study(recipe, tmp_path, resume=True, tell=silent)) == 2
    assert study_is_finished(tmp_path)


def test_a_study_without_a_finished_seed_cannot_be_read(recipe, tmp_path):
    def stop(share, text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(recipe, tmp_path, tell=stop)
    with pytest.raises(ConfigError, match=r"no seed .* is finished"):
        read_study(tmp_path)
    with pytest.raises(ConfigError, match="not the folder of a study"):
        read_study(tmp_path / "elsewhere")


def test_a_folder_of_trainings_is_not_overwritten(recipe, tmp_path):
    write_config(tmp_path / "recipe.yaml", load_recipe("demo"))
    assert not is_study(tmp_path)
    assert not study_is_finished(tmp_path)
    with pytest.raises(ConfigError, match="other settings"):
        run_study(recipe, tmp_path, resume=True, tell=silent)


runner = CliRunner()


def answer(*arguments: str) -> str:
    done = runner.invoke(cli.app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_run_resume_and_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = answer("run", "multilevel", "--seed", "3", *FLAGS)
    assert "test images" in shown
    assert "100%" not in shown.splitlines()[0]
    [folder] = (tmp_path / "runs" / "multilevel").iterdir()
    assert yaml.safe_load((folder / "recipe.yaml").read_text())["seeds"] == [3]
    assert (folder / "report.html").is_file()
    assert "finished before" in answer("run", "multilevel", "--seed", "3", "--resume", *FLAGS)
    assert "finished before" not in answer("run", "multilevel", "--seed", "4", "--resume", *FLAGS)
    (folder / "report.html").unlink()
    answer("report", str(folder))
    assert (folder / "report.html").is_file()


def test_recipes_and_citations_know_studies():
    listed = answer("recipes")
    assert "imex-global-view" in listed
    assert "demo" in listed
    assert "@inproceedings{gholami2019," in answer("cite", "discretise-optimise")
    assert "@misc{ruthotto2020survey," in answer("cite", "point_resnet")
