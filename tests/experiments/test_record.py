"""Results survive being written and read, also those that are not numbers."""

import json
import math
from dataclasses import replace

import pytest

from evolvent.experiments.record import Cost, Result, read_result, write_result

COST = Cost(parameters=1, multiply_adds=2, activation_bytes=3, batch_size=4, gradient="backprop", device="cpu")
RESULT = Result(["a", "b"], COST, 0.5, None, 0.25, [0.5, 0.5], 1, 2, 3, 4.0, 5.0, noise_accuracy={0.1: 0.4})


def strict(text: str) -> float:
    raise AssertionError(f"{text} is not JSON")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_result_that_is_not_finite_is_written_as_json_and_read_as_nan(tmp_path, number):
    result = replace(RESULT, loss=number, per_class=[number, 0.5], noise_accuracy={0.1: number})
    write_result(tmp_path / "result.json", result)
    json.loads((tmp_path / "result.json").read_text(), parse_constant=strict)
    found = read_result(tmp_path / "result.json")
    assert found
    assert math.isnan(found.loss)
    assert math.isnan(found.per_class[0])
    assert math.isnan(found.noise_accuracy[0.1])


def test_a_result_is_read_as_it_was_written(tmp_path):
    write_result(tmp_path / "result.json", RESULT)
    assert read_result(tmp_path / "result.json") == RESULT
