"""What every test stands on: one thread, one seed, modest examples, and real data where there is some."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from warm_interpreter import WarmInterpreter

pytest_plugins = ["durations"]

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


@pytest.fixture(scope="session")
def warm_interpreter() -> Iterator[Callable[..., WarmInterpreter]]:
    """Interpreters that have imported the packages named, each started once per session."""
    started = []

    @cache
    def start(*packages: str) -> WarmInterpreter:
        started.append(WarmInterpreter(*packages))
        return started[-1]

    yield start
    for interpreter in started:
        interpreter.close()


@pytest.fixture
def interpreter(warm_interpreter: Callable[..., WarmInterpreter]) -> WarmInterpreter:
    """An interpreter that has imported what the library builds on, but not the library."""
    return warm_interpreter(
        "torch", "torch.distributed", "torch.export", "torch.func", "lightning_fabric", "matplotlib.pyplot", "pydantic",
        "rich.console", "safetensors.torch", "scipy.sparse", "typer", "yaml",
    )  # fmt: skip
