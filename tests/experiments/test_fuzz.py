"""A share of the cases of ``benchmarks/fuzz.py``, with its seed."""

import importlib.util
from pathlib import Path

import pytest

_FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz.py"


@pytest.mark.parametrize(("kind", "count"), [("recipe_case", 60), ("call_case", 120)])
def test_no_traceback_no_hang_and_short_messages(kind, count):
    spec = importlib.util.spec_from_file_location("fuzz", _FILE)
    assert spec
    assert spec.loader
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    found, faults = fuzz.fuzz(getattr(fuzz, kind), count, fuzz.SEED)
    assert not faults, "\n".join(faults)
    assert found["ok"] > 5
    assert found["refused"] > 20
