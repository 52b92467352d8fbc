"""Fields that are found from samples of another one, with their standard errors."""

import math

import numpy as np
import pytest
import torch

import evolvent as ev
from evolvent.equations.problems import Condition, Problem
from evolvent.errors import DataError
from evolvent.experiments.record import read_findings


def conductivity(x):
    return 0.1 * (1 + 0.5 * x)


def rod() -> Problem:
    """A rod with u = e^{-t} + x + x^2 / 2, by a source that makes it so, whose conductivity k(x) is looked for."""

    def equation(u):
        x, t = u.points["x"], u.points["t"]
        k, k_x = u.value[:, 1:2], u["x"][:, 1:2]
        flux = k_x * u["x"][:, :1] + k * u["xx"][:, :1]
        exact = 0.05 * (1 + x) + conductivity(x)  # (k u_x)_x of u = x + x^2 / 2 + e^{-t}
        return [u["t"][:, :1] - flux + exact + torch.exp(-t), u["t"][:, 1:2]]

    return Problem(
        name="rod of unknown conductivity",
        domain={"x": (0.0, 1.0), "t": (0.0, 1.0)},
        equation=equation,
        unknowns=("u", "k"),
        conditions=[Condition("k at the left end", {"x": 0.0}, lambda u: u.value[:, 1:2] - 0.1)],
        size=1.0,
    )


def samples(count=150, noise=1e-4):
    draw = np.random.default_rng(0)
    points = draw.random((count, 2))
    u = np.exp(-points[:, 1]) + points[:, 0] + points[:, 0] ** 2 / 2 + noise * draw.standard_normal(count)
    return points, np.stack([u, np.full(count, np.nan)], axis=1)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    settings = ["model.options.width=10", "model.options.layers=2", "data.points=150", "data.face_points=20",
                "data.grid=[11, 11]", "optimizer.name=gauss-newton", "optimizer.iterations=1", "task.resample_at=[]",
                "task.phases=[]", "training.epoch_steps=15", "training.steps=30"]  # fmt: skip
    folder = tmp_path_factory.mktemp("fields") / "run"
    return ev.solve(rod(), samples=samples(), settings=settings, second=False, out=folder)


def test_a_field_is_found_from_samples_of_another(found):
    x = np.linspace(0.05, 0.95, 10)
    k = found(np.stack([x, np.full(10, 0.5)], axis=1))[:, 1]
    np.testing.assert_allclose(k, conductivity(x), rtol=0.1)


def test_its_standard_error_is_of_the_size_of_its_error(found):
    fields = {field.title: field.values for field in read_findings(found.folder).fields}
    errors = fields["Standard error of k"]
    assert "Standard error of u" not in fields  # which was measured
    x = np.linspace(0, 1, errors.shape[1])
    grid = np.stack(np.broadcast_arrays(x[None, :], np.linspace(0, 1, len(errors))[:, None]), axis=-1).reshape(-1, 2)
    off = np.abs(found(grid)[:, 1].reshape(errors.shape) - conductivity(x))
    assert np.isfinite(errors).all()
    assert 0.05 < math.sqrt((off**2).mean()) / math.sqrt((errors**2).mean()) < 5


def test_samples_with_gaps_are_refused():
    points, values = samples(20)
    values[3, 0] = np.nan
    with pytest.raises(DataError, match="a component that was not measured is NaN in all"):
        ev.solve(rod(), samples=(points, values), budget="9s")
    values[:] = np.nan
    with pytest.raises(DataError, match="not finite"):
        ev.solve(rod(), samples=(points, values), budget="9s")
