"""Every file of a run folder, damaged in every way: one line that names it, or what was written; nothing else."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from damage import DAMAGES, READERS, make

from evolvent._core.errors import ConfigError, EvolventError
from evolvent._core.yaml_text import parse_yaml
from evolvent.experiments import load_recipe
from evolvent.experiments.grid import run_grid
from evolvent.experiments.record import read_metrics, read_record
from evolvent.experiments.trained import evaluate_run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("damage") / "run"
    make(folder)
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_named_in_one_line_and_never_loads_as_something_else(run, name, damage):
    path, draw = run / name, random.Random(f"{name} {damage}")
    written, whole = repr(READERS[name](run)), path.read_bytes()
    try:
        for _ in range(6 if damage in ("cut", "flipped bit") else 1):
            path.write_bytes(DAMAGES[damage](whole, draw))
            found = said = ""
            try:
                found = repr(READERS[name](run))
            except EvolventError as error:
                said = str(error)
            assert path.name in said or found == written
            assert len(said) < 300
            assert "\n" not in said
            assert said or damage in (
                "cut",
                "cut short",
                "flipped bit",
            )  # of space at the end, or of what no reader looks at
    finally:
        path.write_bytes(whole)


def test_what_was_changed_by_hand_is_read_once_its_checksum_is_deleted(run, tmp_path):
    shutil.copy(run / "config.yaml", tmp_path)
    text = (tmp_path / "config.yaml").read_text().replace("epochs: 2", "epochs: 3")
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"changed by hand.*delete its line 'sha256'"):
        read_record(tmp_path)
    (tmp_path / "config.yaml").write_text("\n".join(line for line in text.splitlines() if "sha256" not in line))
    assert read_record(tmp_path).cell.training.epochs == 3


def test_the_recipe_of_a_run_can_be_run_again(run):
    assert load_recipe(str(run / "recipe.yaml")).name == "demo"


def test_metrics_without_a_result_are_checked_line_by_line(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step\n1,2\n2\n")
    with pytest.raises(ConfigError, match=r"metrics.csv is damaged: line 3 has 1 fields, the first has 2"):
        read_metrics(path)


@pytest.mark.parametrize("text", ["[" * 50_000, "- " * 50_000, "a: {" * 2_000, "&a [*a]", "? " * 300])
def test_deep_and_circular_yaml_is_refused(text):
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "my.yaml")
    assert "my.yaml" in str(caught.value)


def test_yaml_whose_aliases_multiply_is_refused_at_once():
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    laughs += "\n".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12))
    with pytest.raises(ConfigError, match="too large, by its aliases"):
        parse_yaml(laughs, "my.yaml")


def test_anchors_are_read():
    assert parse_yaml("a: &x {lr: 1}\nb: *x", "my.yaml") == {"a": {"lr": 1}, "b": {"lr": 1}}


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("a: 1\nb: 2\na: 3", "a", 3),
        ("v: {slow: {lr: 1}, slow: {lr: 2}}", "slow", 1),
        ("- {1: 2}\n- x:\n    1: 2\n    1: 3", "1", 4),
    ],
)
def test_keys_that_stand_twice_are_refused(text, key, line):
    with pytest.raises(ConfigError, match=rf"^my\.yaml has the key '{key}' twice, again in line {line}\. Keep one\.$"):
        parse_yaml(text, "my.yaml")


def test_keys_may_replace_those_that_are_merged():
    text = "a: &x {lr: 1, b: 2}\nc: &y {<<: *x, lr: 3}\nd: {<<: *y, lr: 4}\ne: {<<: [*x, *y], 1: 0, '1': 0}"
    assert parse_yaml(text, "my.yaml") == {
        "a": {"lr": 1, "b": 2},
        "c": {"lr": 3, "b": 2},
        "d": {"lr": 4, "b": 2},
        "e": {"lr": 1, "b": 2, 1: 0, "1": 0},
    }
    assert parse_yaml("", "my.yaml") is None


def test_damaged_results_are_written_again_from_the_last_checkpoint(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    before = read_record(folder)
    for name in ("result.json", "findings.json"):
        (folder / name).unlink()
    run_grid(load_recipe(str(folder / "recipe.yaml")), folder, resume=True)
    after = read_record(folder)
    assert after.result
    assert before.result
    assert after.result.figures == before.result.figures
    assert after.metrics == before.metrics


def test_a_model_is_tested_again_beside_damaged_files_that_this_does_not_need(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    for name in ("environment.json", "metrics.csv", "result.json", "findings.json"):
        (folder / name).write_text("{")
    cell, _, findings = evaluate_run(folder)
    assert cell.label
    assert findings.figures


def test_a_run_with_other_settings_is_refused_by_the_keys_that_differ(run):
    other = load_recipe(str(run / "recipe.yaml"), ["training.epochs=9", "optimizer.lr=0.5"])
    with pytest.raises(ConfigError, match=r"other settings: its recipe.yaml differs in .*optimizer.lr.*"):
        run_grid(other, run, resume=True)
