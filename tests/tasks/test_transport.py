"""Transport between densities is learned, measured alike for all networks, and refused where it is not posed."""

import math

import pytest
import torch

from evolvent.data import Density, register_density
from evolvent.data.densities import DENSITIES
from evolvent.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe, overlay
from evolvent.experiments.record import read_record
from evolvent.tasks import energy_distance
from evolvent.tasks.transport_view import assigned
from evolvent.testing import check_task

SMALL = {
    "name": "small", "title": "t", "question": "q", "model": {"name": "otflow", "options": {"width": 8}},
    "task": {"name": "transport", "steps": 4, "compared": 100, "shown": 20, "grid": 8},
    "data": {"source": "gaussian", "target": {"name": "gaussian", "centre": [2.0, -1.0], "spread": 0.5},
             "points": 2560, "tested": 256, "batch_size": 128, "eval_batch_size": 128},
    "optimizer": {"name": "adam", "lr": 0.02}, "schedule": {"name": "cosine"},
    "training": {"steps": 120, "epoch_steps": 60},
}  # fmt: skip
FEW = {"steps": 4, "epoch_steps": 2}


def small(**changes):
    return Recipe.read(overlay(SMALL, changes), "test")


def figures_of(recipe, folder):
    run_grid(recipe, folder)
    return read_record(folder).result.figures


def test_the_transport_of_normal_densities_is_learned(tmp_path):
    """Its cost is known: half of |m|^2 + d (1 - s)^2."""
    figures = figures_of(small(), tmp_path)
    assert figures["cost"] == pytest.approx((5 + 2 * 0.25) / 2, rel=0.1)
    assert figures["kl"] < 0.1
    assert figures["mismatch"] < 0.15
    assert figures["straightness"] > 0.95
    assert figures["inverse"] < 1e-3
    assert abs(figures["excess"]) < 0.02
    assert figures["nll"] == pytest.approx(figures["kl"] + 1 + math.log(2 * math.pi), abs=0.2)


def test_what_is_found_can_be_drawn(tmp_path):
    obstacle = {"centre": [1.0, -0.5], "radius": 0.3}
    run_grid(small(training=FEW, data={"obstacle": obstacle, "congestion": {"weight": 0.1}}), tmp_path)
    record = read_record(tmp_path)
    findings = record.findings
    assert [field.title for field in findings.fields] == [
        "Density at the end", "Density at the start that ends as the target", "Paths around the obstacle"
    ]  # fmt: skip
    assert findings.fields[-1].paths.shape[2] == 2
    assert findings.animations[0].frames.shape == (17, 20, 2)
    assert record.result.figures["running"] != 0
    assert len(findings.tables[0].rows) == 7
    assert len(findings.curves[0].series["spread"][1]) == 17


@pytest.mark.parametrize("name", ["velocity", "otflow"])
def test_flow_matching_trains_velocities_and_potentials(name, tmp_path):
    task = {"objective": "matching"}
    figures = figures_of(small(model={"name": name}, task=task, training={"steps": 200, "epoch_steps": 100}), tmp_path)
    assert figures["mismatch"] < 0.3
    assert ("hjb" in figures) == (name == "otflow")
    assert figures["nll"] < 4


def test_points_alone_suffice_for_a_target(tmp_path):
    data = {"source": "gaussian", "target": "moons"}
    figures = figures_of(small(task={"terminal": "distance"}, data=data, training=FEW), tmp_path)
    assert "nll" not in figures
    assert figures["mismatch"] > 0
    data = {"source": "moons", "target": "gaussian"}
    figures = figures_of(small(data=data, training=FEW), tmp_path / "other")
    assert "nll" in figures
    assert "kl" not in figures


@pytest.mark.parametrize("objective", ["transport", "matching"])
def test_contract_of_tasks(objective, tmp_path):
    changes = {"task": {"objective": objective}, "training": {"steps": 6, "epoch_steps": 3}}
    check_task(small(data={"points": 384, "tested": 64}, **changes), tmp_path)


def test_energy_distance_is_that_of_the_line():
    """On the line it is twice the squared distance of the distribution functions."""
    x, y = torch.randn(3000, 1, dtype=torch.float64), torch.randn(3000, 1, dtype=torch.float64) + 1
    line = torch.linspace(-6, 7, 2001, dtype=torch.float64)
    first, second = ((points <= line).double().mean(0) for points in (x, y))
    expected = 2 * torch.trapezoid((first - second).square(), line)
    torch.testing.assert_close(energy_distance(x, y), expected, rtol=0.01, atol=2e-3)
    assert energy_distance(x, x[torch.randperm(3000)]) < 0


def test_assignment_finds_the_shift_of_a_permutation():
    x = torch.randn(40, 3)
    assert assigned(x, x[torch.randperm(40)] + torch.tensor([3.0, 0.0, 4.0])) == pytest.approx(25, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"name": "bsde"}}, "Use otflow"),
        ({"model": {"name": "velocity"}}, "needs a potential, the network otflow"),
        ({"data": {"target": "moons"}}, "set task.terminal: distance"),
        ({"data": {"source": "moons", "congestion": {"weight": 1.0}}}, "needs a source whose density is known"),
        ({"data": {"source": {"spread": 1.0}}}, "needs the name of a density"),
        ({"data": {"obstacle": {"centre": [0.0, 0.0], "radius": 3.0}}}, "covers the source"),
        ({"data": {"obstacle": {"centre": [2.0, -1.0], "radius": 2.0}}}, "covers the target"),
        ({"data": {"obstacle": {"centre": [5.0, 5.0, 5.0]}}}, "3 coordinates, points have 2"),
        ({"data": {"dimension": 1}}, "at most 1 coordinates"),
        ({"data": {"source": {"name": "gaussians", "modes": 2, "weights": [1, -1]}}}, "none negative"),
        ({"task": {"objective": "matching"}, "data": {"congestion": {}}}, "no running costs"),
    ],
)
def test_problems_that_are_not_posed_are_explained(changes, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        run_grid(small(**changes), tmp_path)


def test_unknown_names_are_answered_with_near_ones(tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'gaussians'"):
        run_grid(small(data={"target": "gaussianss"}), tmp_path)


class Negative(Density):
    """Not a density: the logarithm of a negative number."""

    def draw(self, rows, *key):
        return torch.zeros(len(rows), self.dimension)

    def log_density(self, x):
        return torch.log(x[:, :1] - 1)


class Flat(Negative):
    """Points of a wrong shape."""

    def draw(self, rows, *key):
        return torch.zeros(len(rows), 1)


class Lone(Negative):
    """Logarithms without their second axis."""

    def log_density(self, x):
        return -x.square().sum(1)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Negative, "negative, 0 or infinite"),
        (Flat, r"finite and \(N, 2\)"),
        (Lone, r"data.source: the log-density must be .* got float32 of shape \(1024,\)"),
    ],
)
def test_densities_of_users_are_checked(kind, message, tmp_path):
    if "users" in DENSITIES:
        DENSITIES._entries.pop("users")
    register_density("users")(lambda dimension: kind(dimension))
    try:
        with pytest.raises((ConfigError, ShapeError), match=message):
            run_grid(small(data={"source": "users"}), tmp_path)
    finally:
        DENSITIES._entries.pop("users")
