"""The deep BSDE method finds values in several dimensions, and keeps the contract of tasks."""

import math

import pytest
import torch

import evolvent as ev
from evolvent.equations import SEMILINEAR, SemilinearProblem
from evolvent.errors import ConfigError, ShapeError
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe, overlay
from evolvent.experiments.record import read_record
from evolvent.testing import check_task

SMALL = {
    "name": "small", "title": "t", "question": "q", "model": {"name": "bsde", "options": {"width": 20}},
    "task": {"name": "bsde"}, "optimizer": {"name": "adam", "lr": 0.01}, "schedule": {"name": "cosine"},
    "data": {"problem": "hamilton-jacobi-bellman", "dimension": 5, "steps": 10, "paths": 640, "tested": 512},
    "training": {"steps": 200, "epoch_steps": 100},
}  # fmt: skip


def small(**changes):
    return Recipe.read(overlay(SMALL, changes), "test")


def test_a_value_is_found_within_five_percent(tmp_path):
    run_grid(small(), tmp_path)
    figures = read_record(tmp_path).result.figures
    assert figures["error"] < 0.05
    network = ev.load(tmp_path / "model")
    assert network.value.item() == pytest.approx(figures["value"])


def test_without_reference_there_is_no_error_but_a_value(tmp_path):
    run_grid(small(data={"problem": "black-scholes-default"}, training={"steps": 20, "epoch_steps": 10}), tmp_path)
    figures = read_record(tmp_path).result.figures
    assert figures["error"] is None or math.isnan(figures["error"])
    assert 60 < figures["value"] < 110


def test_contract_of_tasks(tmp_path):
    check_task(small(training={"steps": 6, "epoch_steps": 3}, data={"paths": 192, "tested": 64}), tmp_path)


@pytest.fixture
def posed(monkeypatch):
    """A registration of a problem for the duration of a test, from what differs from the heat equation."""

    def pose(**changes):
        column = {"source": lambda t, x, u, z: 0 * u, "terminal": lambda x: 1 + x.square().mean(1, keepdim=True)}
        monkeypatch.setitem(
            SEMILINEAR._entries, "posed",
            lambda dimension: SemilinearProblem(
                name="posed", dimension=dimension, until=1.0, volatility=1.0, **column | changes
            ),
        )  # fmt: skip
        return {"problem": "posed"}

    return pose


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"terminal": lambda x: x.square().mean(1)}, r"terminal value of problem 'posed' must be .* shape \(2048,\)"),
        ({"source": lambda t, x, u, z: 0 * u[:, 0]}, r"source of problem 'posed' must be .* \(2048, 2048\)"),
    ],
)
def test_values_without_their_axis_are_refused(changes, message, posed, tmp_path):
    with pytest.raises(ShapeError, match=message):
        run_grid(small(data=posed(**changes)), tmp_path)


def figures_of(changes, folder, **training):
    run_grid(small(data=changes, training={"steps": 20, "epoch_steps": 10} | training), folder)
    return read_record(folder).result.figures


def test_a_reference_of_zero_has_no_relative_error(posed, tmp_path):
    error = figures_of(posed(reference=lambda: 0.0), tmp_path)["error"]
    assert error is None or math.isnan(error)


@pytest.mark.parametrize("height", [0.0, 0.3])
def test_a_constant_terminal_value_is_solved(height, posed, tmp_path):
    problem = posed(terminal=lambda x: torch.full_like(x[:, :1], height))
    assert figures_of(problem, tmp_path, steps=100, epoch_steps=50)["value"] == pytest.approx(height, abs=0.02)


def test_a_value_far_from_a_guess_near_zero_is_learned(posed, tmp_path):
    """u = (T - t) / 5 plus the mean of x, whose terminal value has the mean 0."""
    problem = posed(terminal=lambda x: x.mean(1, keepdim=True), source=lambda t, x, u, z: torch.full_like(u, 0.2))
    assert figures_of(problem, tmp_path, steps=200, epoch_steps=100)["value"] == pytest.approx(0.2, rel=0.1)


@pytest.mark.parametrize("value", [-3.0, -0.5, 0.0, 0.5, 3.0])
def test_the_value_begins_as_the_guess_and_moves_by_the_larger_size(value):
    network = ev.create_model("bsde", in_features=2, value=value, variation=2.0)
    assert network.value.item() == pytest.approx(value, abs=1e-6)
    [rate] = torch.autograd.grad(network.value, network.relative)
    assert abs(rate.item()) == max(abs(value), 2.0)


def test_other_networks_and_shapes_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="Use bsde"):
        run_grid(small(model={"name": "point_resnet"}), tmp_path)
    with pytest.raises(ShapeError, match="a time and 5 coordinates"):
        ev.create_model("bsde", in_features=5)(torch.zeros(2, 5))
