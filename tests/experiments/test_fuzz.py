"""A share of the cases of ``benchmarks/fuzz.py``, with its seed."""

import pytest
from fuzz import SEED, call_case, fuzz, recipe_case


@pytest.mark.parametrize(("make", "count"), [(recipe_case, 60), (call_case, 120)])
def test_no_traceback_no_hang_and_short_messages(make, count):
    found, faults = fuzz(make, count, SEED)
    assert not faults, "\n".join(faults)
    assert found["ok"] > 5
    assert found["refused"] > 20
