"""What every test stands on: one thread, one seed, modest examples, and real data where there is some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "evolvent",
    deadline=None,
    max_examples=15,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("evolvent")
torch.set_num_threads(1)

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
_GIVEN = os.environ.get("EVOLVENT_DATA")  # read before any test can change it


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Every test draws the same numbers, in whatever order the tests run."""
    torch.manual_seed(0)


@pytest.fixture
def data_folder() -> Path:
    """A folder with real data sets: EVOLVENT_DATA, or ``../shared/data`` beside the repository."""
    folder = Path(_GIVEN) if _GIVEN else _BESIDE
    if not folder.is_dir():
        pytest.skip("EVOLVENT_DATA names no folder with real data sets")
    return folder


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def tolerance(dtype: torch.dtype) -> dict[str, float]:
    """Arguments of ``torch.testing.assert_close``: tolerances belong to the dtype, not to the test."""
    return {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-12}
