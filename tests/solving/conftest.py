"""Small and quick settings; lengths are given in steps, so that a busy machine changes nothing."""

import pytest

import evolvent as ev

QUICK = [
    "model.options.width=14",
    "model.options.layers=2",
    "data.points=300",
    "data.face_points=60",
    "data.grid=[32, 17]",
    "optimizer.iterations=25",
    "task.resample_at=[]",
    "task.phases=[{steps: 2, optimizer: {name: adam, lr: 0.01, iterations: 25}}]",
    "training.epoch_steps=4",
]


def _quick(steps, *more):
    return [*QUICK, f"training.steps={steps}", *more]


@pytest.fixture(scope="session")
def quick():
    """Settings for so many steps of 25 iterations, with what else is to be changed."""
    return _quick


@pytest.fixture(scope="session")
def heat(tmp_path_factory):
    """A well-solved heat equation, twice."""
    return ev.solve("heat", settings=_quick(24), out=tmp_path_factory.mktemp("heat") / "run")
