"""What a run folder holds is read as it was written, is strict JSON, and says its format."""

import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
import yaml

from evolvent._core.errors import ConfigError
from evolvent.experiments.record import (
    Cost,
    Result,
    read_arrays,
    read_findings,
    read_json,
    read_recipe,
    read_record,
    read_result,
    write_config,
    write_findings,
    write_result,
)
from evolvent.tasks import Figure, Findings
from evolvent.tasks.findings import Curve, Field, Gallery, Matrix, Table

COST = Cost(parameters=1, multiply_adds=2, activation_bytes=None, batch_size=4, gradient="backprop", device="cpu")
KINDS = [Figure("accuracy", "accuracy", "share", "higher"), Figure("loss", "loss")]
RESULT = Result({"accuracy": 0.5, "loss": 0.25}, KINDS, COST, "images", 1, 2, 3, 4.0, 5.0)


def strict(text: str) -> float:
    raise AssertionError(f"{text} is not JSON")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_written_as_null(tmp_path, number):
    figures = {"accuracy": number, "loss": 0.5}
    write_result(tmp_path, dataclasses.replace(RESULT, figures=figures, rows_per_second=number))
    json.loads((tmp_path / "result.json").read_text(), parse_constant=strict)
    found = read_result(tmp_path)
    assert found
    assert found.figures == {"accuracy": None, "loss": 0.5}
    assert found.rows_per_second is None


def test_a_result_is_read_as_it_was_written(tmp_path):
    write_result(tmp_path, RESULT)
    assert read_result(tmp_path) == RESULT
    assert RESULT.score.name == "accuracy"


def test_findings_are_read_as_they_were_written(tmp_path):
    findings = Findings(
        figures={"accuracy": 0.5, "loss": None},
        answer="Yes.",
        tables=[Table("T", ["class", "share"], [["a", 0.5], ["b", None]], ["number", "share"])],
        curves=[Curve("C", "x", "y", {"line": ([1.0, 2.0], [0.5, math.inf])}, log_x=True)],
        matrices=[Matrix("M", ["a", "b"], np.eye(2, dtype=np.int64))],
        galleries=[Gallery("G", np.zeros((1, 1, 2, 2), np.uint8), ["one"], np.ones(1))],
        fields=[Field("F", np.ones((2, 3)), (0.0, 1.0, 0.0, 2.0), reference=None)],
        arrays={"weights": np.arange(3)},
    )
    write_findings(tmp_path, findings)
    json.loads((tmp_path / "findings.json").read_text(), parse_constant=strict)
    found = read_findings(tmp_path)
    assert found
    assert found.tables == findings.tables
    assert found.fields[0].extent == findings.fields[0].extent
    [x, y] = found.curves[0].series["line"]
    assert x == [1.0, 2.0]
    assert math.isnan(y[1])
    np.testing.assert_array_equal(found.arrays["weights"], findings.arrays["weights"])
    assert found.galleries[0].images.dtype == np.uint8


def test_every_file_says_its_format_and_a_later_one_is_refused_in_one_line(tiny, tmp_path):
    [cell] = tiny().cells()
    write_config(tmp_path / "config.yaml", cell)
    write_config(tmp_path / "recipe.yaml", tiny())
    write_result(tmp_path, RESULT)
    write_findings(tmp_path, Findings())
    readers = {
        "config.yaml": read_record,
        "recipe.yaml": read_recipe,
        "result.json": read_result,
        "findings.json": read_findings,
    }
    for name, read in readers.items():
        assert read(tmp_path) is not None
        path = tmp_path / name
        good = path.read_text()
        values = yaml.safe_load(good)
        assert values["format"] == 1
        path.write_text(json.dumps({**values, "format": 2, "news": True}))
        with pytest.raises(ConfigError, match=rf"{name} has format 2, this version reads 1. Use the") as caught:
            read(tmp_path)
        assert "\n" not in str(caught.value)
        path.write_text(good)


@pytest.mark.parametrize(
    ("content", "said"),
    [('{"figures": {', "is damaged"), ('{"figures": {}}', "has no format number"), ("[]", "has no format")],
)
def test_a_damaged_or_foreign_result_is_one_line(tmp_path, content, said):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(ConfigError, match=rf"result.json {said}.* Delete this file alone and .* --resume") as caught:
        read_result(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_damaged_side_file_is_deleted_alone_and_never_its_folder(tmp_path):
    for name in ("environment.json", "findings.json", "result.json"):
        (tmp_path / name).write_text("{")
        with pytest.raises(ConfigError, match=r"Delete (this file alone|findings.json, nothing else)") as caught:
            read_json(tmp_path / name)
        assert f"Delete {tmp_path}" not in str(caught.value)


@pytest.mark.parametrize("content", ["a: [", "- a"])
def test_a_torn_recipe_is_one_line(tmp_path, content):
    (tmp_path / "recipe.yaml").write_text(content)
    with pytest.raises(ConfigError, match=r"recipe.yaml is not") as caught:
        read_recipe(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("junk", [b"junk" * 50, pickle.dumps([1]), b""])
def test_junk_in_the_place_of_arrays_is_never_said_to_be_loadable_unsafely(tmp_path, junk):
    (tmp_path / "findings.npz").write_bytes(junk)
    with pytest.raises(ConfigError, match=r"not an archive of plain arrays. Delete findings.json, nothing") as caught:
        read_arrays(tmp_path / "findings.npz")
    assert "pickle" not in str(caught.value)
    assert "unsafe" not in str(caught.value)
