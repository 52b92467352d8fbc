import json
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent._core.plain import plain


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Record:
    loss: float
    weights: torch.Tensor


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (1 - 2j, [1.0, -2.0]),
        (complex(math.inf, 0), [None, 0.0]),
        ((1, "a", None, True), [1, "a", None, True]),
        (torch.tensor([1.0, math.nan]), [1.0, None]),
        (torch.ones((), requires_grad=True), 1.0),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.float64(math.inf), None),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (Path("a") / "b", str(Path("a") / "b")),
        (np.str_("a"), "a"),
        (Colour.RED, "red"),
        ({np.int64(1): (2.0,)}, {1: [2.0]}),
        (Record(math.inf, torch.zeros(2)), {"loss": None, "weights": [0.0, 0.0]}),
    ],
    ids=str,
)
def test_values_take_the_form_that_json_holds(value, expected):
    assert plain(value) == expected
    assert json.loads(json.dumps(plain([value]), allow_nan=False))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_everything_made_of_these_can_be_written_and_read_back(value):
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == plain(value)


def test_digits_round_every_number():
    assert plain({"a": [2 / 3, 1 / 3 + 1j / 7]}, digits=3) == {"a": [0.667, [0.333, 0.143]]}


def test_numbers_that_are_not_finite_stay_where_the_form_has_them():
    assert plain((math.inf, {"a": np.float64(-math.inf)}), finite=False) == [math.inf, {"a": -math.inf}]


def test_a_value_without_a_form_is_refused():
    with pytest.raises(TypeError, match="no form for a object"):
        plain([object()])
