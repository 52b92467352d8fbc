"""Ways of solving: energies, new random points, boundary values soft and hard, eigenvalues, regions."""

import math

import pytest
import torch

from evolvent import create_model
from evolvent.equations.problems import PROBLEMS, Problem, Region, disc, register_problem
from evolvent.errors import ConfigError
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe
from evolvent.tasks import OptimizerConfig, Pde, Setup
from evolvent.tasks.pde import PdeData, PdeSettings


class Sines(torch.nn.Module):
    """A multiple of the product of sines, as a network."""

    def __init__(self, share: float = 1.0) -> None:
        super().__init__()
        self.share = torch.nn.Parameter(torch.tensor(share, dtype=torch.float64))

    def forward(self, p):
        product = self.share
        for i in range(p.shape[1]):
            product = product * torch.sin(math.pi * p[:, i : i + 1])
        return product


def made(model=None, data=None, **settings) -> Pde:
    section = PdeData(
        **{
            "name": "poisson",
            "points": 4096,
            "fresh": True,
            "grid": [],
            "test_points": 64,
            "face_points": 8,
            **(data or {}),
        }
    )
    material = Pde.material(Pde.read(section, None), section, 0)
    torch.manual_seed(0)
    model = model or create_model("perceptron", width=6, layers=2, **material.options).double()
    return Pde(model, material, Setup(PdeSettings(**settings), section, OptimizerConfig(name="ssbroyden")))


def batch_of(task: Pde, epoch: int = 0):
    return task.source.take(torch.arange(len(task.source)), 0, epoch)


@pytest.mark.parametrize("dimension", [2, 5])
def test_the_solution_has_the_least_energy_of_its_multiples(dimension):
    """Of a u the energy is :math:`-\\frac{d \\pi^2}{2} 2^{-d} (2 a - a^2)`."""
    for share in (0.5, 1.0, 1.5):
        task = made(Sines(share), {"options": {"dimension": dimension}}, method="ritz", boundary="soft")
        value, sums = task.objective(batch_of(task), "network")
        expected = -dimension * math.pi**2 / 2 * 0.5**dimension * (2 * share - share**2)
        assert value.item() == pytest.approx(expected, rel=0.02)
        assert "squares" not in sums  # an energy is no residual
        (slope,) = torch.autograd.grad(value, task.model.share)
        assert slope.item() == pytest.approx(dimension * math.pi**2 * 0.5**dimension * (share - 1), abs=0.03)


def test_the_residual_of_the_solution_vanishes_in_any_method():
    task = made(Sines(), method="galerkin")
    assert task.objective(batch_of(task), "network")[0].item() < 1e-20
    assert task.measure((p := task.source.draw(9, 0, 0), task.problem.solution(p)))["squares"] < 1e-20


def test_new_points_come_in_each_step_inside_and_on_the_boundary():
    task = made(method="galerkin")
    first, second = (task.edges(draw).boundary for draw in (0, 1))
    assert not torch.equal(first, second)
    assert torch.equal(task.edges(0).boundary, first)
    values = [task.objective(batch_of(task, epoch), "network")[0].item() for epoch in (0, 1, 0)]
    assert values[0] == values[2] != values[1]


def test_boundary_values_are_asked_for_or_built_in():
    pairs = {"options": {"dimension": 4, "solution": "pairs"}}
    soft, hard = made(data=pairs, method="ritz"), made(data=pairs, method="ritz", boundary="hard")
    weights = soft.setup.settings.weights
    assert set(soft._parts(batch_of(soft), weights, {})) == {"equation", "boundary"}
    assert set(hard._parts(batch_of(hard), weights, {})) == {"equation"}
    at = soft.edges().boundary
    torch.testing.assert_close(hard.solution(at), hard.problem.solution(at))
    assert (soft.solution(at) - soft.problem.solution(at)).abs().max() > 0.1
    inside = hard.source.draw(50, 0, 0)
    torch.testing.assert_close(
        hard.solution(inside), hard.problem.boundary_values(inside) + hard.problem.inside(inside) * hard.model(inside)
    )


def test_what_a_method_cannot_do_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"ritz takes new random points in each step. Set data.fresh: true"):
        made(data={"fresh": False}, method="ritz")
    with pytest.raises(ConfigError, match="'heat' has no energy"):
        made(data={"name": "heat", "grid": [4, 4]}, method="ritz")
    with pytest.raises(ConfigError, match="found by the method pinn, not by galerkin"):
        made(data={"name": "heat", "grid": [4, 4]}, method="galerkin", library={})
    with pytest.raises(ConfigError, match="Use method ritz"):
        made(data={"name": "eigenvalue"}, method="galerkin")
    with pytest.raises(ConfigError, match=r"(?s)method.*'ritz'"):
        run_grid(recipe_of(task={"name": "pde", "method": "rits"}), tmp_path / "run")


def test_regions_that_hold_no_points_are_refused():
    if "nowhere" not in PROBLEMS:
        empty = disc()
        nowhere = Region("nowhere", lambda p: torch.zeros(len(p), dtype=torch.bool), empty.boundary, empty.inside)
        register_problem("nowhere")(
            lambda: Problem(
                name="nowhere",
                domain={"x": (-1, 1), "y": (-1, 1)},
                equation=lambda u: u.laplacian,
                region=nowhere,
                reference=lambda: lambda p: p[:, :1],
            )
        )
    with pytest.raises(ConfigError, match="region 'nowhere' of 'nowhere' has less than one of 1024 points"):
        made(data={"name": "nowhere", "points": 4})


def recipe_of(**changes):
    base = {
        "name": "p",
        "title": "P",
        "question": "Is it solved?",
        "task": {"name": "pde", "boundary": "hard"},
        "data": {"name": "poisson-disc", "points": 128, "grid": [17, 17]},
        "model": {"name": "perceptron", "options": {"width": 10, "layers": 2}},
        "optimizer": {"name": "ssbroyden", "iterations": 50},
        "training": {"steps": 6, "epoch_steps": 3, "precision": "64-true"},
    }
    return Recipe.read({**base, **changes}, "test")


def test_the_engine_solves_on_a_disc(tmp_path):
    from evolvent.experiments.record import read_findings

    [result] = run_grid(recipe_of(), tmp_path / "run").values()
    assert result.figures["error"] < 1e-3
    folder = tmp_path / "run"
    found = read_findings(folder if (folder / "findings.json").is_file() else next((folder / "cells").iterdir()))
    field = found.fields[0]
    assert field.values.shape == (17, 17)
    assert math.isnan(field.values[0, 0])  # a corner of the box
    assert abs(field.values[8, 8] - 1) < 1e-2


def test_the_engine_finds_an_eigenvalue(tmp_path):
    recipe = recipe_of(
        task={"name": "pde", "boundary": "hard", "method": "ritz"},
        data={"name": "eigenvalue", "points": 1024, "fresh": True, "grid": [17, 17]},
        optimizer={"name": "adam", "lr": 0.01},
        schedule={"name": "cosine"},
        training={"steps": 200, "epoch_steps": 100, "precision": "64-true"},
    )
    [result] = run_grid(recipe, tmp_path / "run").values()
    assert result.figures["eigenvalue"] == pytest.approx(2 * math.pi**2, rel=0.01)
    assert result.figures["eigenvalue_error"] < 0.01
    assert result.figures["error"] < 0.05
