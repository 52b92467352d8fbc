"""Every file of a run folder, damaged in every way: one line that names it, or what was written; nothing else."""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import evolvent as ev
from evolvent._core.errors import ConfigError, EvolventError
from evolvent._core.yaml_text import parse_yaml
from evolvent.data import Preprocess
from evolvent.experiments import load_recipe
from evolvent.experiments.grid import run_grid
from evolvent.experiments.record import read_metrics, read_recipe, read_record
from evolvent.experiments.studies.run_folder import SeedResult, read_study, write_seed
from evolvent.report.analyses import analysis_path, read_analyses
from evolvent.report.runs import list_series, read_run
from evolvent.tasks.findings import Curve, Findings


def _record(folder: Path) -> object:
    record = read_record(folder)
    return record, record.findings and record.findings.pack()


def _model(folder: Path) -> object:
    model = ev.load(folder / "model")
    return model.spec, {name: tensor.tolist() for name, tensor in model.state_dict().items()}  # pyright: ignore


def _analysis(folder: Path) -> object:
    return read_analyses(list_series([read_run(folder)])[0], "features")


READERS: dict[str, Callable[[Path], object]] = {
    "config.yaml": _record,
    "recipe.yaml": read_recipe,
    "result.json": _record,
    "metrics.csv": _record,
    "environment.json": _record,
    "findings.json": _record,
    "findings.npz": _record,
    "analysis/features.json": _analysis,
    "model/config.yaml": _model,
    "model/model.safetensors": _model,
    "model/preprocess.safetensors": lambda folder: Preprocess.load(folder / "model").mean.tolist(),
    "study/recipe.yaml": lambda folder: read_study(folder / "study"),
    "study/seeds/0/seconds.json": lambda folder: read_study(folder / "study"),
    "study/seeds/0/findings.json": lambda folder: [one.findings.pack() for one in read_study(folder / "study")],
}
DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": lambda content, draw: content[: draw.randrange(len(content))],
    "cut short": lambda content, draw: content[: -draw.randrange(1, 8)],
    "flip": lambda content, draw: _flipped(content, draw),
    "zeros": lambda content, draw: content[: len(content) // 2] + bytes(len(content) - len(content) // 2),
    "empty": lambda content, draw: b"",
    "not UTF-8": lambda content, draw: content[:20] + b"\xff\xfe\xfa" + content[20:],
    "text": lambda content, draw: b"nothing of the kind\n",
    "list": lambda content, draw: b"[1, 2, 3]\n",
    "deep": lambda content, draw: b"[" * 100_000,
    "tag": lambda content, draw: b"a: !!python/object/apply:os.system [true]\n" + content,
    "pickle": lambda content, draw: pickle.dumps({"format": 1, "state": [1.0]}),
}


def _flipped(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A finished training with an analysis beside it, and a study below it."""
    folder = tmp_path_factory.mktemp("damage") / "run"
    settings = ["data.name=digits", "data.fraction=0.1", "training.epochs=2", "seeds=[0]", "variants={}",
                "model.name=hamiltonian", "model.options={channels: [4], blocks: 1}"]  # fmt: skip
    run_grid(load_recipe("demo", settings), folder)  # pyright: ignore[reportArgumentType]
    from evolvent.experiments.record import write_config
    from evolvent.report.analyses import write_analysis

    write_analysis(analysis_path(folder, "features"), "features", {"silhouette_map": 0.25})
    write_config(folder / "study/recipe.yaml", load_recipe("multilevel"))
    found = Findings({"error": 0.5}, curves=[Curve("Error", "x", "y", {"a": ([1.0], [2.0])})], arrays={"a": np.ones(3)})
    write_seed(folder / "study", SeedResult(0, 1.5, found))
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_named_in_one_line_and_never_loads_as_something_else(run, name, damage):
    path, draw = run / name, random.Random(f"{name} {damage}")
    written, whole = repr(READERS[name](run)), path.read_bytes()
    try:
        for _ in range(6 if damage in ("cut", "flip") else 1):
            path.write_bytes(DAMAGES[damage](whole, draw))
            found = said = ""
            try:
                found = repr(READERS[name](run))
            except EvolventError as error:
                said = str(error)
            assert path.name in said or found == written
            assert len(said) < 300
            assert "\n" not in said
            assert said or damage in ("cut", "cut short", "flip")  # of space at the end, or of what no reader looks at
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
